import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import {
  EmbeddedLearner,
  type LearnerSession,
  LocalVersions,
  ProgressFiles,
  readSafetensors,
  resolveTrainingConfig,
  runTrainingJob,
  type TrainerEvent,
  type TrainingConfigInput,
  type TrainingJob,
} from '@trainyard/trainer';
import { answer, BIGRAM_LORA, BigramPolicy, byteTemplate, group, twoTurns } from '@trainyard/trainer/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { TINKER_PROFILES } from '../profiles/tinker-profiles.ts';
import { type FakeDialect, HOSTED_LIKE, SKYRL_0_4 } from '../testing/fake-dialect.ts';
import { TinkerBench } from '../testing/tinker-bench.ts';

let folder: string;
let bench: TinkerBench | null = null;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tinker-job-'));
});
afterEach(async () => {
  await bench?.close();
  bench = null;
  rmSync(folder, { recursive: true });
});

const GROUPS = ['one', 'two', 'three', 'four', 'five', 'six'].map((question) =>
  group(answer(1, `${question} yes`, question), answer(0, `${question} no`, question)),
);

// In half of them the second turn is a separate history.
const BRANCHED = ['one', 'two', 'three'].map((question) =>
  group(
    twoTurns(1, [`${question} yes `, 'so'], question),
    twoTurns(0, [`${question} no`, 'so'], question),
    answer(0.2, 'perhaps', question),
  ),
);

function job(config: TrainingConfigInput): TrainingJob {
  return {
    jobId: 'job',
    groups: GROUPS,
    config: resolveTrainingConfig({ learningRate: 0.02, packedSequenceLength: 45, gradientSteps: 3, ...config }),
    lora: BIGRAM_LORA,
    startFrom: null,
    snapshots: 'job',
    output: 'trained',
    seed: 3,
  };
}

/** Starts from a fresh adapter of this service's average size: the bigram's own has 16 values of random size. */
async function fourStepsHere(): Promise<{ metrics: readonly Readonly<Record<string, number>>[]; product: number[] }> {
  const versions = new LocalVersions(join(folder, 'here'));
  const policy = new BigramPolicy();
  const learner = new EmbeddedLearner({ policy, versions });
  await learner.load(null, { jobKind: 'rl' });
  const { value } = policy.lora.tensors.find(({ half }) => half === 'a')!;
  const square = value.reduce((sum, number) => sum + number * number, 0) / value.length;
  value.forEach((number, i) => (value[i] = number / Math.sqrt(3 * 8 * square)));
  await learner.save('begun');
  const own = { ...job({ gradientSteps: 4 }), startFrom: 'begun' };
  const { metrics } = await run(learner, own);
  return { metrics, product: productOf(join(folder, 'here', 'trained')) };
}

/** B·A of the only layer, row by row. */
function productOf(directory: string): number[] {
  const tensors = [...readSafetensors(join(directory, 'adapter_model.safetensors')).tensors.values()];
  const [a, b] = ['lora_A', 'lora_B'].map((half) => tensors.find(({ name }) => name.includes(half))!);
  const { rank } = BIGRAM_LORA;
  return Array.from({ length: 64 }, (_, i) =>
    Array.from({ length: rank }, (_, r) => b!.data[Math.floor(i / 8) * rank + r]! * a!.data[r * 8 + (i % 8)]!).reduce(
      (sum, term) => sum + term,
    ),
  );
}

async function run(learner: LearnerSession, own: TrainingJob, progress = mkdtempSync(join(folder, 'progress-'))) {
  const events: TrainerEvent[] = [];
  const result = await runTrainingJob(own, {
    learner,
    template: byteTemplate,
    progress: new ProgressFiles(progress),
    signal: new AbortController().signal,
    emit: (event) => events.push(event),
  });
  return {
    result,
    metrics: events.flatMap((event) => (event.kind === 'gradient_step' ? [event.metrics] : [])),
    warnings: events.flatMap((event) => (event.kind === 'warning' ? [event.warning] : [])),
    started: events.find((event) => event.kind === 'training_started')?.data,
  };
}

const SAME = ['grad_norm', 'policy_loss', 'kl_policy_ref', 'ratio_mean', 'num_trainable_tokens'];

test.each<[string, FakeDialect, 'skyrl' | 'hosted', TrainingConfigInput]>([
  ['SkyRL, default settings', SKYRL_0_4, 'skyrl', {}],
  ['SkyRL, a KL term against the base model', SKYRL_0_4, 'skyrl', { klPenaltyCoef: 0.3 }],
  ['hosted, default settings', HOSTED_LIKE, 'hosted', {}],
])('a job measures and learns the same there as here: %s', async (_what, dialect, profile, config) => {
  bench = await TinkerBench.start(dialect, {
    ...TINKER_PROFILES[profile],
    alpha: BIGRAM_LORA.alpha,
    targetSets: [['q']],
  });
  const versions = new LocalVersions(join(folder, 'here'));
  const here = await run(new EmbeddedLearner({ policy: new BigramPolicy(), versions }), job(config));
  const learner = await bench.learner();
  const there = await run(learner, job(config));
  expect(there.metrics).toHaveLength(3);
  let largest = 0;
  for (const [index, metrics] of here.metrics.entries()) {
    for (const key of SAME.filter((name) => name in metrics)) {
      const difference = Math.abs(there.metrics[index]![key]! - metrics[key]!);
      largest = Math.max(largest, difference);
      expect(difference, key).toBeLessThan(2e-5);
    }
    // A question is sent twice, once per answer; the trie has it once.
    const { num_remote_tokens: sent, num_row_tokens: held, num_remote_requests: requests } = there.metrics[index]!;
    expect(sent!).toBeGreaterThan(held!);
    expect(requests).toBeGreaterThan(1);
  }
  console.log(`a job there differs from one here by ${largest.toExponential(1)} in ${SAME.join(', ')}`);
  expect(await bench.versions.find('trained')).not.toBe(null);
  expect(there.result.digest).toMatch(/^[0-9a-f]{64}$/);
  // The snapshot before the last one is deleted on the server, too.
  expect(bench.server.seen.filter(({ route }) => /checkpoints\/weights\//.test(route)).length).toBeGreaterThan(0);
});

test.each([0.1, 40])(
  'a server that draws fresh adapters %s times as large learns as much as this service',
  async (scale) => {
    const profile = { ...TINKER_PROFILES.skyrl, alpha: BIGRAM_LORA.alpha, targetSets: [['q' as const]] };
    bench = await TinkerBench.start({ ...SKYRL_0_4, initialScale: scale }, profile);
    const here = await fourStepsHere();
    const learner = await bench.learner();
    const there = await run(learner, job({ gradientSteps: 4 }));
    expect(bench.logged.find((line) => line.includes('weight decay'))).toMatch(
      /initialises adapters [\d.]+ times as large/,
    );
    expect(there.metrics).toHaveLength(4);
    const keys = ['policy_loss', 'grad_norm', 'kl_sampler', 'ratio_mean'];
    const differences = here.metrics.flatMap((metrics, step) =>
      keys.map((key) => Math.abs(there.metrics[step]![key]! - metrics[key]!)),
    );
    const product = productOf((await bench.versions.find('trained'))!);
    const largest = Math.max(...here.product.map(Math.abs));
    const ofProduct = Math.max(...here.product.map((value, i) => Math.abs(product[i]! - value))) / largest;
    console.log(
      `a fresh adapter ${scale} times as large: four steps differ by ${Math.max(...differences).toExponential(1)}, B·A by ${ofProduct.toExponential(1)} of its largest value`,
    );
    expect(largest).toBeGreaterThan(1e-3);
    expect(Math.max(...differences)).toBeLessThan(2e-5);
    expect(ofProduct).toBeLessThan(1e-4);
    // The temporary state of the scaled weights is deleted on the server.
    const deleted = bench.server.seen.filter(({ route }) => /checkpoints\/weights\//.test(route));
    expect(deleted.length).toBeGreaterThan(0);
  },
);

test.each([false, 'refused'] as const)(
  'a server with a fixed scale (decay: %s) trains with a warning that names the rate',
  async (decays) => {
    const profile = { ...TINKER_PROFILES.skyrl, alpha: BIGRAM_LORA.alpha, targetSets: [['q' as const]] };
    bench = await TinkerBench.start({ ...SKYRL_0_4, initialScale: 0.1, decays }, profile);
    const { warnings, started } = await run(await bench.learner(), job({}));
    const factor = Number(
      /by ([\d.]+)/.exec(warnings.find(({ code }) => code === 'initial_scale_differs')!.suggestion)![1],
    );
    expect(factor).toBeGreaterThan(5);
    expect(factor).toBeLessThan(20);
    expect(bench.logged.join('\n')).toContain(`multiply learning rates by ${factor}`);
    expect(started).toMatchObject({ absent_metrics: ['entropy', 'surprisal_excess', 'surprisal_excess_error'] });
  },
);

test('turns in histories of their own are trained there as here, each token once', async () => {
  const profile = { ...TINKER_PROFILES.skyrl, alpha: BIGRAM_LORA.alpha, targetSets: [['q' as const]] };
  bench = await TinkerBench.start(SKYRL_0_4, profile);
  const versions = new LocalVersions(join(folder, 'here'));
  const own = { ...job({ packedSequenceLength: 256, gradientSteps: 1 }), groups: BRANCHED };
  const here = await run(new EmbeddedLearner({ policy: new BigramPolicy(), versions }), own);
  const there = await run(await bench.learner(), own);
  const numSampled = BRANCHED.flatMap(({ trajectories }) => trajectories)
    .flatMap(({ histories }) => histories.flatMap(({ items }) => items))
    .reduce((sum, item) => sum + (item.kind === 'choice' ? item.tokenIds.length : 0), 0);
  expect(there.metrics[0]).toMatchObject({ num_branched_turns: 3, num_trainable_tokens: numSampled });
  for (const key of SAME.filter((name) => name in here.metrics[0]!))
    expect(Math.abs(there.metrics[0]![key]! - here.metrics[0]![key]!), key).toBeLessThan(2e-5);
});

test('a job whose server restarts midway continues from its last step and ends with the same result', async () => {
  const own = job({ stepPerRow: true, gradientSteps: null, maxGradNorm: 1e30 });
  const profile = { ...TINKER_PROFILES.skyrl, alpha: BIGRAM_LORA.alpha, targetSets: [['q' as const]] };
  bench = await TinkerBench.start(SKYRL_0_4, profile);
  const whole = await run(await bench.learner(), own);
  await bench.versions.remove('trained');
  const { server } = bench;
  const progress = mkdtempSync(join(folder, 'restarted-'));
  let numSteps = 0;
  server.fault = ({ route }) => {
    if (route === 'optim_step' && ++numSteps === 3) void server.restart();
    return null;
  };
  await expect(run(await bench.learner(), own, progress)).rejects.toMatchObject({
    code: 'trainer.host_lost',
    retry: 'resume',
  });
  const again = await run(await bench.learner(), own, progress);
  expect(again.result.digest).toBe(whole.result.digest);
  expect(again.metrics).toHaveLength(whole.metrics.length);
});

test('a job with a shape unsupported by the server is refused before anything is sent', async () => {
  bench = await TinkerBench.start(SKYRL_0_4, TINKER_PROFILES.skyrl);
  const learner = await bench.learner();
  const numSeen = bench.server.seen.length;
  await expect(run(learner, job({}))).rejects.toMatchObject({
    code: 'trainer.config_invalid',
    message: '`lora.targets` must be q, k, v, o, gate, up, down on this learner, got q',
  });
  expect(bench.server.seen.length).toBe(numSeen);
});
