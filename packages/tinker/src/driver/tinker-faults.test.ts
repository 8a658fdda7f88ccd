import { type LearnerSession, type OptimizerConfig, TrainerError } from '@trainyard/trainer';
import { BigramPolicy, packTrie } from '@trainyard/trainer/testing';
import { afterEach, expect, test } from 'vitest';

import { TINKER_PROFILES } from '../profiles/tinker-profiles.ts';
import { HOSTED_LIKE, JSON_LIKE, SKYRL_0_4 } from '../testing/fake-dialect.ts';
import { instantClock } from '../testing/instant-clock.ts';
import { BENCH_ROWS, TinkerBench } from '../testing/tinker-bench.ts';

const { skyrl, hosted, fireworks } = TINKER_PROFILES;
const ADAM: OptimizerConfig = {
  learningRate: 0.02,
  adamBeta1: 0.9,
  adamBeta2: 0.99,
  adamEpsilon: 1e-8,
  weightDecay: 0,
  maxGradNorm: 0.1,
};

let bench: TinkerBench | null = null;
afterEach(async () => {
  await bench?.close();
  bench = null;
});

async function gather(session: LearnerSession): Promise<void> {
  const rows = await session.forward(BENCH_ROWS, { keep: 'gradients' });
  await session.backward(
    rows.map(({ logprobs }) => ({ lossGradient: logprobs.map((_, i) => (i % 2 ? 0.3 : -0.8)), entropyGradient: null })),
  );
}

async function train(session: LearnerSession, numSteps: number): Promise<(number | null)[]> {
  const norms: (number | null)[] = [];
  for (let index = 0; index < numSteps; index++) {
    await gather(session);
    norms.push((await session.step(ADAM)).gradNorm);
  }
  return norms;
}

const logprobsOf = async (session: LearnerSession): Promise<number[]> =>
  (await session.forward(BENCH_ROWS)).flatMap(({ logprobs }) => [...logprobs]);

test('a server that ignores the clip gets gradients that are clipped, as one that clips does it', async () => {
  bench = await TinkerBench.start(SKYRL_0_4, skyrl);
  const measured = await bench.learner();
  await measured.load(null, { jobKind: 'rl' });
  const norms = await train(measured, 3);
  const values = await logprobsOf(measured);
  expect(bench.logged.join()).toContain('gradient recipe meanAdvantages and clipping measured');
  await bench.close();
  bench = await TinkerBench.start(HOSTED_LIKE, hosted);
  const clipped = await bench.learner();
  await clipped.load(null, { jobKind: 'rl' });
  expect((await train(clipped, 3)).map((norm, i) => norm! / norms[i]!)).toEqual(
    [1, 1, 1].map((one) => expect.closeTo(one, 5)),
  );
  expect(Math.min(...norms.map(Number))).toBeGreaterThan(ADAM.maxGradNorm);
  const others = await logprobsOf(clipped);
  expect(Math.max(...others.map((value, i) => Math.abs(value - values[i]!)))).toBeLessThan(1e-5);
  expect(bench.logged.join()).toContain('gradient recipe weights and clipping step');
});

test("the server's treatment of gradients is measured, regardless of its profile", async () => {
  bench = await TinkerBench.start(SKYRL_0_4, {
    ...hosted,
    keyPrefix: null,
    wire: 'probe',
    archiveName: 'bare',
    gradNormMetrics: skyrl.gradNormMetrics,
  });
  await bench.learner();
  expect(bench.logged.join()).toContain('gradient recipe meanAdvantages and clipping measured');
  await bench.close();
  bench = await TinkerBench.start({ ...SKYRL_0_4, gradients: 'sum' }, skyrl);
  await bench.learner();
  expect(bench.logged.join()).toContain('gradient recipe weights and clipping measured');
});

test('a server is tried out once, and the next life remembers', async () => {
  bench = await TinkerBench.start(SKYRL_0_4, skyrl);
  await (await bench.learner()).close();
  const numExecuted = bench.server.executed.length;
  expect(numExecuted).toBeGreaterThan(10);
  await bench.learnerOf(await bench.open());
  expect(bench.server.executed).toHaveLength(numExecuted);
});

test('after a restart of the server a new session continues from the last saved version, bit for bit', async () => {
  bench = await TinkerBench.start(SKYRL_0_4, skyrl);
  const whole = await bench.learner();
  await whole.load(null, { jobKind: 'rl' });
  await train(whole, 3);
  const expected = await logprobsOf(whole);

  const session = await bench.learner();
  await session.load(null, { jobKind: 'rl' });
  await train(session, 2);
  await session.save('after two', { isServed: false });
  await train(session, 1);
  await bench.server.restart();
  const lost = logprobsOf(session);
  await expect(lost).rejects.toMatchObject({ code: 'trainer.host_lost', retry: 'resume' });
  await expect(gather(session)).rejects.toMatchObject({ retry: 'resume' });
  const next = await bench.learner();
  await next.load('after two', { jobKind: 'rl' });
  expect(next.numSteps).toBe(2);
  await train(next, 1);
  expect(await logprobsOf(next)).toEqual(expected);
});

test.each([
  { dialect: SKYRL_0_4, profile: skyrl, status: 404 },
  { dialect: HOSTED_LIKE, profile: hosted, status: 410 },
])('a session ended by $dialect.name is lost, and another one continues', async ({ dialect, profile, status }) => {
  bench = await TinkerBench.start(dialect, profile);
  const clock = instantClock();
  const trainer = await bench.open({ clock, operationTimeoutMs: 1e9 });
  const session = await bench.learnerOf(trainer);
  await session.load(null, { jobKind: 'rl' });
  await session.save('start');
  bench.server.endSessions();
  clock.beat();
  await expect
    .poll(async () => await logprobsOf(session).catch((error: TrainerError) => error.message))
    .toContain(`ended the session (HTTP ${status})`);
  await session.load('start', { jobKind: 'rl' });
  expect(await logprobsOf(session)).not.toEqual([]);
});

test('a lost answer of a server without memory is not requested again: the step counts as lost, never as doubled', async () => {
  bench = await TinkerBench.start(JSON_LIKE, fireworks);
  const session = await bench.learner();
  await session.load(null, { jobKind: 'rl' });
  await session.save('start');
  await gather(session);
  const { server } = bench;
  const numBefore = server.executed.length;
  server.fault = ({ route }) => (route === 'forward_backward' ? { kind: 'lostReply' } : null);
  await expect(session.step(ADAM)).rejects.toMatchObject({ code: 'trainer.host_lost', retry: 'resume' });
  expect(server.executed.slice(numBefore)).toEqual(['forward_backward:cross_entropy']);
  server.fault = () => null;
  await expect(session.step(ADAM)).rejects.toMatchObject({
    message: expect.stringContaining('a step was interrupted') as string,
  });
  await session.load('start', { jobKind: 'rl' });
  await train(session, 1);
});

test.each(['save_weights', 'save_weights_for_sampler', 'load_weights'])(
  'a lost answer to %s loses the session of a server that refuses a repeat of it, and the job continues',
  async (lost) => {
    bench = await TinkerBench.start(SKYRL_0_4, skyrl);
    const session = await bench.learner();
    await session.load(null, { jobKind: 'rl' });
    await train(session, 1);
    await session.save('after one', { isServed: false });
    const expected = await logprobsOf(session);
    const { server } = bench;
    let numLost = 0;
    server.fault = ({ route }) => (route === lost && numLost++ === 0 ? { kind: 'lostReply' } : null);
    const failing =
      lost === 'load_weights'
        ? session.load('after one', { jobKind: 'rl' })
        : session.save('after two', { isServed: true });
    await expect(failing).rejects.toMatchObject({ code: 'trainer.host_lost', retry: 'resume' });
    expect(numLost).toBe(1);
    const next = await bench.learner();
    await next.load('after one', { jobKind: 'rl' });
    expect(next.numSteps).toBe(1);
    expect(await logprobsOf(next)).toEqual(expected);
  },
);

test('every model is unloaded: at the end, after a failure, and by the next life after a crash', async () => {
  bench = await TinkerBench.start(SKYRL_0_4, skyrl);
  const { server } = bench;
  const session = await bench.learner();
  await session.load(null, { jobKind: 'rl' });
  await session.forward(BENCH_ROWS, { under: 'base' });
  await train(session, 1);
  expect(server.numLoaded).toBe(2);
  await session.close();
  await expect.poll(() => server.numLoaded).toBe(0);

  const mortal = await bench.learner();
  await mortal.load(null, { jobKind: 'rl' });
  await mortal.save('start');
  server.fault = ({ route }) => (route === 'load_weights' ? { kind: 'status', status: 400 } : null);
  await expect(mortal.load('start', { jobKind: 'rl' })).rejects.toMatchObject({ code: 'trainer.remote_refused' });
  server.fault = () => null;
  await expect.poll(() => server.numLoaded).toBe(1);
  // The process dies here without closing anything.
  await bench.open();
  await expect.poll(() => server.numLoaded).toBe(0);
});

test('without a free slot a job waits, and one slot is enough to continue from a version', async () => {
  bench = await TinkerBench.start({ ...SKYRL_0_4, slots: 1, clips: true }, skyrl);
  const session = await bench.learner();
  await session.load(null, { jobKind: 'rl' });
  await train(session, 1);
  await session.save('one');
  await session.load('one', { jobKind: 'rl' });
  const other = await bench.learner();
  await expect(other.load(null, { jobKind: 'rl' })).rejects.toMatchObject({
    code: 'trainer.remote_unavailable',
    retry: 'wait',
    message: expect.stringMatching(
      /Maximum number of LoRA adapters \(1\) reached\. The job waits for a slot/,
    ) as string,
  });
});

test('another base model is reported before training, with the remedy; the same one is not', async () => {
  bench = await TinkerBench.start(SKYRL_0_4, skyrl);
  const tokenIds = Int32Array.from({ length: 64 }, (_, i) => (i * 7) % 250);
  const row = packTrie([[{ tokenIds: [...tokenIds], numPrompt: 1 }]]);
  const { logprobs } = await new BigramPolicy().forward(row);
  const baseOf = (values: Float32Array) => ({ tokenIds: [...tokenIds], logprobs: [null, ...values] });
  await bench.learner(baseOf(logprobs));
  expect(bench.logged.join()).toMatch(/base model differs by \d\.\de-\d+ nats per token|by 0\.0e\+0/);
  const shifted = logprobs.map((value) => value - 0.5);
  await expect(bench.learner(baseOf(shifted))).rejects.toMatchObject({
    code: 'trainer.remote_differs',
    message: expect.stringMatching(
      /base model of the Tinker server differs from the file .* 63 fixed tokens differ by 0\.50 nats on average .* correct --trainer-model/,
    ) as string,
  });
  expect(bench.server.numLoaded).toBe(0);
});

test('a hanging server is abandoned, with the remedy', async () => {
  bench = await TinkerBench.start(SKYRL_0_4, skyrl);
  const session = await bench.learnerOf(await bench.open({ clock: instantClock(), operationTimeoutMs: 1e9 }));
  await session.load(null, { jobKind: 'rl' });
  bench.server.fault = ({ route }) => (/retrieve|healthz/.test(route) ? { kind: 'lostReply' } : null);
  await expect(logprobsOf(session)).rejects.toMatchObject({
    code: 'trainer.host_lost',
    message: expect.stringMatching(/the Tinker server hangs: no answer .* to Forward or to its health check/) as string,
  });
});

test('an operation that does not end is given up after the time that is set', async () => {
  bench = await TinkerBench.start(SKYRL_0_4, skyrl);
  let now = 0;
  const clock = { ...instantClock(), now: () => (now += 1000) };
  const session = await bench.learnerOf(await bench.open({ clock, operationTimeoutMs: 1e9 }));
  await session.load(null, { jobKind: 'rl' });
  const short = await bench.learnerOf(await bench.open({ clock, operationTimeoutMs: 30_000 }));
  bench.server.fault = ({ route }) => (route === 'retrieve_future' ? { kind: 'pending' } : null);
  await expect(short.load(null, { jobKind: 'rl' })).rejects.toMatchObject({
    code: 'trainer.host_lost',
    message: expect.stringMatching(
      /did not finish CreateModel within 30 s\. Check its log, or raise --trainer-timeout-seconds/,
    ) as string,
  });
});

test('weights of another learner are not continued, and the message gives the reason', async () => {
  bench = await TinkerBench.start(SKYRL_0_4, skyrl);
  const session = await bench.learner();
  await session.load(null, { jobKind: 'rl' });
  await bench.versions.write('elsewhere', () => undefined);
  await expect(session.load('elsewhere', { jobKind: 'rl' })).rejects.toMatchObject({
    code: 'trainer.config_invalid',
    message: expect.stringMatching(/were not trained by a Tinker server, and it cannot import weights/) as string,
  });
});
