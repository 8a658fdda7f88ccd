import { expect } from 'vitest';
import type { Queries } from '../contract/sql.ts';
import type { Store } from '../parts/store.ts';
import { claimExport } from './harness.ts';
import { insertRow } from './insert-row.ts';

/** Version of the last schema before exports became jobs. */
export const BEFORE_ONE_QUEUE = 11;

/** Inserts rows that a database of that schema may hold. */
export async function fillBeforeOneQueue(queries: Queries): Promise<void> {
  const insert = (table: string, row: Parameters<typeof insertRow>[2]) => insertRow(queries, table, row);
  await insert('entities', { id: 'e', name: 'local', created_at: 1 });
  const model = { entity_id: 'e', project: 'demo', base_model: 'base', lora: '{}', next_step: 2, created_at: 1 };
  await insert('models', { id: 'm', name: 'agent', ...model });
  const job = { model_id: 'm', config: '{"a":1}', key_id: 'k', fencing_token: 3, num_attempts: 1, created_at: 2 };
  const held = { lease_owner: 'w', lease_expires_at: 9 };
  await insert('jobs', { id: 'j1', kind: 'rl', status: 'succeeded', data_key: 'groups/1', finished_at: 5, ...job });
  await insert('jobs', { id: 'j2', kind: 'sft', status: 'running', data_key: 'sft/2', start_step: 1, ...held, ...job });
  await insert('jobs', { id: 'j3', kind: 'rl', status: 'queued', data_key: 'groups/3', paused_at: 4, ...job });
  await insert('job_events', { id: 'v', job_id: 'j1', seq: 0, type: 'training_ended', data: '{}', created_at: 5 });
  const checkpoint = { model_id: 'm', metrics: '{}', created_at: 5, artifact_key: 'checkpoints/1', digest: 'd' };
  await insert('checkpoints', { id: 'c', step: 1, job_id: 'j1', ...checkpoint });
  const source = { source_artifact_key: 'checkpoints/1', source_digest: 'd' };
  const exported = {
    model_id: 'm',
    step: 1,
    format: 'peft',
    dtype: 'f32',
    files: '[]',
    num_attempts: 1,
    created_at: 3,
    ...source,
  };
  await insert('exports', {
    id: 'x1',
    status: 'succeeded',
    artifact_key: 'exports/1',
    parity: '{}',
    finished_at: 6,
    ...exported,
  });
  await insert('exports', { id: 'x2', status: 'running', started_at: 4, ...exported, ...held });
  await insert('exports', { id: 'x3', status: 'queued', deleted_at: 7, ...exported });
  await insert('exports', { id: 'x4', status: 'failed', error_message: 'no', finished_at: 8, ...exported });
}

/** Expects that all of it exists and continues. */
export async function expectOneQueue(store: Store): Promise<void> {
  const { items: jobs } = await store.jobs.list({ modelId: 'm' });
  expect(jobs).toMatchObject([
    { id: 'j1', kind: 'rl', status: 'succeeded', dataKey: 'groups/1', turn: 'm', entityId: 'e', config: { a: 1 } },
    { id: 'j2', kind: 'sft', status: 'running', lease: { owner: 'w', fencingToken: 3 }, start: { step: 1 } },
    { id: 'j3', status: 'queued', pausedAt: 4, numAttempts: 1, keyId: 'k' },
  ]);
  expect((await store.jobs.listEvents({ jobId: 'j1' }))?.items).toMatchObject([{ type: 'training_ended' }]);
  expect(await store.checkpoints.get('m', 1)).toMatchObject({ directoryKey: 'checkpoints/1' });
  const { items: exports } = await store.exports.list({ modelId: 'm' });
  expect(exports).toMatchObject([
    { id: 'x1', status: 'succeeded', directoryKey: 'exports/1', createdAt: 3, finishedAt: 6, step: 1, entityId: 'e' },
    { id: 'x2', status: 'queued', sourceDirectoryKey: 'checkpoints/1', sourceDigest: 'd', startedAt: 4 },
    { id: 'x4', status: 'failed', errorMessage: 'no', finishedAt: 8 },
  ]);
  expect(await store.jobs.get('x3')).toMatchObject({ kind: 'export', status: 'cancelled', finishedAt: 7 });
  expect(await claimExport(store)).toMatchObject({ id: 'x2', numAttempts: 2, fencingToken: 2 });
  const late = store.jobs.fail('j2', 3, 'no');
  expect((await late).job.status).toBe('failed');
  expect((await store.jobs.resume('j3'))?.job.pausedAt).toBeNull();
  expect((await store.jobs.claim('w', 1000))?.id).toBe('j3');
}
