import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import type { DeleteModelResponse, HostsObject, ModelDetailsObject } from '@trainyard/protocol';

import { ScriptedTracker } from '../../testing/scripted-tracker.ts';
import { TestServer } from '../../testing/test-server.ts';
import { RunMirror } from './run-mirror.ts';
import { TrackerError } from './run-tracker.ts';

let server: TestServer;
let tracker: ScriptedTracker;
let mirror: RunMirror;
const logged: string[] = [];
beforeEach(async () => {
  tracker = new ScriptedTracker();
  logged.length = 0;
  server = await TestServer.startTracked((store) => {
    mirror = new RunMirror({ store, tracker, log: (line) => logged.push(line) });
    return mirror;
  });
  // Items from here on are sent.
  await mirror.reportNext();
});
afterEach(() => server.close());

const sendAll = async () => {
  while (await mirror.reportNext());
};
const log = (modelId: string, reward: number) =>
  server.request('POST', `/v1/preview/models/${modelId}/log`, {
    trajectory_groups: [{ trajectories: [{ reward }] }],
    split: 'val',
  });

async function runningJob(modelId: string) {
  return (await startedJob(modelId)).step;
}

async function startedJob(modelId: string) {
  const { store } = server;
  await store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: `groups/${crypto.randomUUID()}` });
  const job = await store.jobs.claim('test', 60_000);
  if (job === null) throw new Error('the queue is empty');
  const append = async (type: string, index: number, data: object, metrics: Record<string, number>) => {
    const event = { type, data, dedupeKey: `${type}:${index}`, metrics };
    await store.jobs.appendEvent(job.id, job.fencingToken, event);
  };
  return {
    step: (index: number, loss: number) => append('gradient_step', index, { loss }, { 'train/loss': loss }),
    heldOut: (gradientStep: number, loss: number) =>
      append('held_out', gradientStep, { gradient_step: gradientStep, loss, seconds: 1 }, { 'held_out/loss': loss }),
  };
}

const only = (index = 0) => {
  const run = [...tracker.runs.values()][index];
  if (run === undefined) throw new Error('there is no such run');
  return run;
};
const values = (name: string, index = 0) =>
  [...only(index).points.values()].flatMap(({ step, metrics }) =>
    metrics[name] === undefined ? [] : [[step, metrics[name]]],
  );

test('every model has a run there, with each gradient step and each log, at the gradient steps before it', async () => {
  const modelId = await server.makeModel('agent');
  await sendAll();
  expect(only()).toMatchObject({
    runId: modelId,
    entity: 'acme',
    project: 'demo',
    name: 'agent',
    parameters: { base_model: 'tiny/base', lora_rank: '8' },
  });
  const step = await runningJob(modelId);
  await step(0, 4);
  await step(0, 4);
  await step(1, 2);
  await log(modelId, 0.5);
  await sendAll();
  await step(2, 1);
  await sendAll();
  expect(values('train/loss')).toEqual([
    [0, 4],
    [1, 2],
    [2, 1],
  ]);
  expect(values('val/reward')).toEqual([[2, 0.5]]);
  const details = (await server.request('GET', `/v1/preview/models/${modelId}`)).json<ModelDetailsObject>();
  expect(details.tracked_run).toEqual({ tracker: 'scripted', id: 'run-0', url: null });
});

test('a held-out loss is sent under its name, at the gradient steps before it', async () => {
  const { step, heldOut } = await startedJob(await server.makeModel('agent'));
  await heldOut(0, 3);
  await step(0, 4);
  await step(1, 2);
  await heldOut(2, 2.5);
  await sendAll();
  expect(values('held_out/loss')).toEqual([
    [0, 3],
    [2, 2.5],
  ]);
  expect([...only().points.values()].flatMap(({ metrics }) => Object.keys(metrics)).toSorted()).toEqual([
    'held_out/loss',
    'held_out/loss',
    'train/loss',
    'train/loss',
  ]);
});

test('a failing tracker gets everything later, once, and does not disturb the service', async () => {
  const modelId = await server.makeModel('agent');
  const step = await runningJob(modelId);
  tracker.failure = new TrackerError('unreachable', 'it does not answer');
  await step(0, 4);
  expect((await log(modelId, 0.5)).statusCode).toBe(200);
  for (let i = 0; i < 3; i++) await expect(mirror.reportNext()).rejects.toThrow('does not answer');
  tracker.failure = null;
  await sendAll();
  // Items that were sent but not recorded are sent again, and stored once.
  vi.spyOn(server.store.runs, 'advanceTracker').mockRejectedValueOnce(new Error('the service dies'));
  await step(1, 2);
  await expect(mirror.reportNext()).rejects.toThrow('the service dies');
  await sendAll();
  expect(values('train/loss')).toEqual([
    [0, 4],
    [1, 2],
  ]);
  expect(tracker.runs.size).toBe(1);
});

test('gradient steps of an existing model are counted from its current step', async () => {
  const modelId = await server.makeModel('old');
  const step = await runningJob(modelId);
  await step(0, 4);
  const late = new ScriptedTracker();
  const { store } = server;
  const begun = new RunMirror({ store, tracker: Object.assign(late, { name: 'late' }), log: () => {} });
  await begun.reportNext();
  await step(1, 2);
  while (await begun.reportNext());
  expect([...(late.runs.get('run-0')?.points.values() ?? [])].map((point) => point.step)).toEqual([1]);
});

test('deleting a model deletes its run; if that fails, the answer reports it and it is retried', async () => {
  const remove = async (id: string) =>
    (await server.request('DELETE', `/v1/preview/models/${id}`)).json<DeleteModelResponse>().deleted_run;
  const [first, second] = [await server.makeModel('one'), await server.makeModel('two')];
  await sendAll();
  expect(await remove(first)).toBe(true);
  expect(only(0).isDeleted).toBe(true);
  tracker.failure = new TrackerError('unreachable', 'it does not answer');
  expect(await remove(second)).toBe(false);
  expect(only(1).isDeleted).toBe(false);
  tracker.failure = null;
  await sendAll();
  expect(only(1).isDeleted).toBe(true);
  expect(tracker.runs.size).toBe(2);
});

test('a run deleted on the tracker is created again', async () => {
  const modelId = await server.makeModel('agent');
  await sendAll();
  only().isDeleted = true;
  await log(modelId, 0.5);
  await sendAll();
  expect(values('val/reward', 1)).toEqual([[0, 0.5]]);
});

/** Lets time pass, no faster than a database answers: its time limits are timers, too. */
async function until(check: () => void): Promise<void> {
  await vi.waitFor(
    async () => {
      await vi.advanceTimersByTimeAsync(200);
      check();
    },
    { interval: 25, timeout: 100_000 },
  );
}

test('it sends updates while it runs, and reports its failure once to the log and to admins', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const headers = { authorization: `Bearer ${await server.makeKey('acme', ['admin'])}` };
  const tracking = async () =>
    (await server.request('GET', '/v1/preview/hosts', undefined, headers)).json<HostsObject>().tracking;
  tracker.failure = new TrackerError('unreachable', 'it does not answer');
  await server.makeModel('agent');
  mirror.start();
  await until(() => expect(tracker.numCalls).toBeGreaterThan(3));
  expect(await tracking()).toEqual({ tracker: 'scripted', trouble: 'it does not answer' });
  expect(logged).toEqual(['tracker scripted: it does not answer; missing data will be sent later']);
  tracker.failure = null;
  await until(() => expect(tracker.runs.size).toBe(1));
  await until(() => expect(mirror.problem()).toBeNull());
  await mirror.stop();
  expect(logged.slice(1)).toEqual(['tracker scripted: accepts runs']);
});

test('a tracker that is absent at the start is one log line, and gets the missed events later', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const other = new ScriptedTracker();
  other.failure = new TrackerError('unreachable', 'it does not answer');
  const { store } = server;
  // For a tracker new to the store, without items: only a check reports a problem.
  const late = new RunMirror({
    store,
    tracker: Object.assign(other, { name: 'late' }),
    log: (line) => logged.push(line),
  });
  late.start();
  await vi.advanceTimersByTimeAsync(0);
  await vi.waitFor(
    () => expect(logged).toEqual(['tracker late: it does not answer; missing data will be sent later']),
    60_000,
  );
  await server.makeModel('agent');
  other.failure = null;
  await until(() => expect(other.runs.size).toBe(1));
  await late.stop();
  expect(logged.slice(1)).toEqual(['tracker late: accepts runs']);
});
