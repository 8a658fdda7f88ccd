import type { Store } from '../parts/store.ts';
import { ALL_SCOPES, addJob, addModel, claim, claimExport, contentsOf, importAdapter, LORA, train } from './harness.ts';

/** Fills every table: numbers at their limits, bytes, text of every plane, deleted rows. */
export async function fillStore(store: Store): Promise<void> {
  const { id: entityId } = await store.keys.ensureEntity('local');
  const key = await store.keys.create({ entityId, name: 'laptop 🚂 ä', scopes: ALL_SCOPES, expiresAt: 2 ** 52 });
  await store.signIns.openSession(key.id);
  const limits = { requestsPerMinute: 7, tokensPerMinute: 1e9, maxRequestsInFlight: 3 };
  await store.keys.setLimits(key.id, limits);
  const wanted = ['sample' as const];
  await store.keys.spend([{ keyId: key.id, limits, wanted, numBegun: 0, numTokens: 1e9 / 3, numInFlight: 0 }]);
  const model = await addModel(store);
  await store.models.label(model.id, { addTags: ["it's a 🚂", 'ä'], notes: 'two\nlines' });
  await train(store, model.id, 'checkpoints/1', {
    metrics: {
      'train/loss': 0.1 + 0.2,
      'train/tiny': 5e-324,
      'train/large': 1e300,
    },
  });

  await addJob(store, model.id);
  const ended = await claim(store);
  await store.jobs.appendEvent(ended.id, ended.fencingToken, {
    type: 'gradient_step',
    data: {},
    dedupeKey: 'gradient_step:0',
  });
  await store.jobs.succeed(ended.id, ended.fencingToken, { directoryKey: null, digest: null, metrics: {} });

  const trajectories = {
    rewards: [[1, -0.1], [1e-17]],
    contents: [[contentsOf('d1'), contentsOf('d2')], [contentsOf(null)]],
  };
  await store.jobs.enqueue({
    modelId: model.id,
    kind: 'rl',
    config: { text: 'a\0b\ud800' },
    dataKey: 'groups/1',
    ...trajectories,
  });
  const { id, fencingToken } = await claim(store);
  await store.jobs.appendEvent(id, fencingToken, {
    type: 'gradient_step',
    data: { loss: 1e-7 },
    dedupeKey: 'gradient_step:0',
    metrics: { 'train/loss': 1 / 3 },
    outcomes: [
      [
        { outcome: 'trained', advantage: 1 / 7 },
        { outcome: 'trained', advantage: -1 / 7 },
      ],
      [{ outcome: 'equal_rewards', advantage: null }],
    ],
    traces: {
      gradientStep: 0,
      traces: [{ groupIndex: 0, trajectoryIndex: 1, trace: Uint8Array.of(0, 1, 255, 10) }],
      maxBytes: 1e9,
    },
  });
  const counts = { numGroups: 1, numTrajectories: 1, numExceptions: 0 };
  await store.trajectories.recordLog({
    modelId: model.id,
    split: 'val',
    blobKey: 'logs/1',
    ...counts,
    metrics: { 'val/reward': 0.25 },
    rewards: [[0.25]],
  });
  await store.artifacts.add({
    entityId,
    project: 'demo',
    name: 'data',
    fileName: 'd.jsonl',
    blobKey: 'artifacts/1',
    digest: 'd',
    sizeBytes: 2 ** 40,
    numLines: 1,
  });
  await store.exports.create({ modelId: model.id, step: 1, format: 'peft', dtype: 'f32' });
  const held = await claimExport(store);
  await store.exports.finish(held.id, held.fencingToken, {
    directoryKey: 'exports/1',
    files: [],
    parity: { meanDifference: 1e-3 },
  });
  const adapter = await store.adapters.create({
    entityId,
    baseModel: 'base',
    configKey: 'uploads/c',
    weightsKey: 'uploads/w',
  });
  await importAdapter(store, adapter.id, { lora: LORA, directoryKey: 'adapters/1', digest: 'd' });
  await store.choiceRecords.add({
    answerId: 'answer',
    choiceIndex: 0,
    entityId,
    modelId: model.id,
    step: 1,
    digest: null,
    promptTokenIds: Int32Array.of(1, 2 ** 31 - 1),
    tokenIds: Int32Array.of(2),
    logprobs: Float32Array.of(-1.5),
  });
  await store.keptAnswers.keep({
    id: 'resp_1',
    entityId,
    project: 'demo',
    keyId: key.id,
    modelId: model.id,
    status: 'completed',
    answer: '{"text":"\\u0000 🚂"}',
    itemIds: ['msg_1'],
    input: '[]',
  });
  const live = await store.keptAnswers.begin({
    entityId,
    project: '',
    id: 'resp_2',
    keyId: key.id,
    modelId: null,
    status: 'in_progress',
    answer: '{}',
    itemIds: [],
    input: '[]',
    leaseMs: 60_000,
  });
  if (typeof live === 'string') throw new Error(live);
  await store.keptAnswers.update(live, { events: { firstNumber: 0, events: ['{"delta":"🚂"}'] } });
  await store.conversations.create({
    entityId,
    project: 'demo',
    id: 'conv_1',
    metadata: '{"topic":"🚂"}',
    items: [{ id: 'msg_1', item: '{"content":"\\u0000 🚂"}' }],
  });
  await store.idempotency.begin({ keyId: key.id, key: 'once', requestHash: 'h' });
  await store.idempotency.complete({ keyId: key.id, key: 'once', status: 200, body: '{"text":"\\u0000"}' });
  await store.usage.record({
    keyId: key.id,
    entityId,
    project: null,
    model: 'm',
    kind: 'chat',
    promptTokens: 1,
    completionTokens: 2,
  });
  await store.files.announce('checkpoints/coming');
  await store.runs.setTracked('mlflow', model.id, { id: 'r', url: null, numGradientSteps: 1 });
  await store.runs.advanceTracker('mlflow', 3, new Map());
  await store.files.claimBlobs('the-blobs');
  await store.clock.trust(2 ** 52);
  await store.members.register(
    {
      role: 'trainer',
      url: null,
      version: '0.0.0',
      baseModels: [{ id: 'base', fileDigest: null, vocabSize: 3 }],
      capacity: 1,
      adapterDigests: [],
      isDraining: false,
      machineTrouble: null,
    },
    30_000,
  );
  // Deleted items stay as rows, or leave a number that is not reused.
  const gone = await addModel(store, 'gone');
  await addJob(store, gone.id);
  await store.models.delete(gone.id);
}
