import type { Queries, SqlParameter } from '../contract/sql.ts';
import { insertRow } from './insert-row.ts';

type Row = Record<string, SqlParameter>;

const BYTES = Uint8Array.of(0, 1, 255, 10);
const LARGEST = Number.MAX_SAFE_INTEGER;
const LONG = 'a'.repeat(300);

/**
 * Inserts rows into every table of a database of that version, from 1 to 31, in all states that a migration
 * distinguishes. Positions count from 1.
 *
 * @returns the number of rows of each table
 */
export async function fillEarlierVersion(queries: Queries, version: number): Promise<Map<string, number>> {
  const filled = new Map<string, number>();
  const add = async (table: string, row: Row) => {
    await insertRow(queries, table, row);
    filled.set(table, (filled.get(table) ?? 0) + 1);
  };
  const since = (first: number, columns: Row): Row => (version >= first ? columns : {});
  const each = async (first: number, table: string, ...rows: Row[]) => {
    if (version >= first) for (const row of rows) await add(table, row);
  };

  await each(1, 'entities', { id: 'e', name: 'local 🚂', created_at: LARGEST });
  const key = { entity_id: 'e', scopes: '[]', created_at: 1 };
  await each(
    1,
    'api_keys',
    { id: 'k', name: 'admin', secret_sha256: BYTES, ...key, ...since(6, { is_service_key: 1, hint: 'tyk-1' }) },
    { id: 'k2', name: 'laptop', secret_sha256: Uint8Array.of(7), revoked_at: 5, ...key },
  );
  const model = {
    entity_id: 'e',
    project: 'demo',
    base_model: 'base',
    lora: '{"rank":8}',
    next_step: 3,
    created_at: 1,
  };
  await each(
    1,
    'models',
    { id: 'm', name: 'agent', ...model, ...since(13, { run_id: 'm', num_gradient_steps: 4 }) },
    { id: 'gone', name: 'agent', ...model, run_id: 'gone', deleted_at: 9 },
  );
  const job = (dataKey: string | null): Row => ({
    config: '{"text":"ä"}',
    [version >= 11 ? 'data_key' : 'groups_key']: dataKey,
    key_id: 'k',
    fencing_token: 3,
    num_attempts: 1,
    created_at: 2,
    ...since(12, { entity_id: 'e', turn: 'm' }),
    ...since(21, { base_model: 'base' }),
  });
  await each(
    1,
    'jobs',
    { id: 'j1', model_id: 'm', kind: 'rl', status: 'succeeded', finished_at: 5, ...job('groups/1') },
    { id: 'j2', model_id: 'm', kind: 'sft', status: 'queued', ...job('sft/2'), ...since(2, { paused_at: 4 }) },
    {
      id: 'j3',
      model_id: 'm',
      kind: 'rl',
      status: 'running',
      lease_owner: 'w',
      lease_expires_at: 9,
      start_step: 1,
      ...job('groups/3'),
      ...since(21, { snapshot_key: 'snapshots/j3/1', snapshot_steps: 2 }),
    },
    { id: 'j4', model_id: 'gone', kind: 'rl', status: 'cancelled', finished_at: 8, ...job('groups/4') },
  );
  const checkpoint = { metrics: '{"loss":0.1}', created_at: 5 };
  await each(
    1,
    'checkpoints',
    { id: 'c0', model_id: 'm', step: 0, ...checkpoint },
    { id: 'c1', model_id: 'm', step: 1, job_id: 'j1', artifact_key: 'checkpoints/1', digest: 'd', ...checkpoint },
    { id: 'c2', model_id: 'gone', step: 0, deleted_at: 9, ...checkpoint },
  );
  await each(
    1,
    'job_events',
    { id: 'v1', job_id: 'j1', seq: 0, type: 'gradient_step', data: '{}', dedupe_key: 'gradient_step:0', created_at: 4 },
    { id: 'v2', job_id: 'j1', seq: 1, type: 'training_ended', data: '{"text":"🚂"}', created_at: 5 },
  );
  const counts = { num_groups: 1, num_trajectories: 2, num_exceptions: 0, metrics: '{}', created_at: 6 };
  await each(1, 'trajectory_logs', {
    id: 'l',
    model_id: 'm',
    checkpoint_id: 'c1',
    step: 1,
    split: 'val',
    blob_key: 'logs/1',
    ...counts,
  });
  const request = { key_id: 'k', request_hash: 'h', created_at: 1, expires_at: 2 };
  await each(
    1,
    'idempotency_records',
    { key: 'ended', status: 200, body: '{}', ...request },
    { key: 'open', ...request, ...since(10, { owner: 'w' }) },
  );
  const used = {
    key_id: 'k',
    entity_id: 'e',
    model: 'm',
    num_requests: 1,
    prompt_tokens: LARGEST,
    completion_tokens: 2,
  };
  await each(
    1,
    'usage',
    { recorded_at: 1, project: null, kind: 'chat', ...used },
    { recorded_at: 0, project: 'demo', kind: 'chat', ...used, ...since(8, { is_hour: 1 }) },
  );
  const artifact = { entity_id: 'e', project: 'demo', name: 'data', file_name: 'd.jsonl', digest: 'd', created_at: 1 };
  await each(3, 'artifacts', {
    id: 'a',
    version: 0,
    blob_key: 'artifacts/1',
    size_bytes: 2 ** 40,
    num_lines: 1,
    ...artifact,
  });
  await addExports(each, version);
  const adapter = { entity_id: 'e', base_model: 'base', created_at: 1 };
  await each(
    4,
    'adapters',
    { id: 'd1', lora: '{}', artifact_key: 'adapters/1', digest: 'd', committed_at: 2, ...adapter },
    { id: 'd2', config_key: 'uploads/c', weights_key: 'uploads/w', ...adapter },
  );
  const answer = { entity_id: 'e', model_id: 'm', step: 1, created_at: 3, size_bytes: 4, prompt_token_ids: BYTES };
  await each(5, 'answer_records', { id: 'answer', ...answer });
  await each(5, 'choice_records', { answer_position: 1, choice_index: 0, token_ids: BYTES, logprobs: BYTES });
  await each(10, 'announced_keys', { key: 'checkpoints/coming', owner: 'w', announced_at: 3 });
  await each(
    13,
    'metric_series',
    { model_id: 'm', name: 'train/reward', num_points: 1 },
    ...[1, 2].map((number) => ({ model_id: 'm', name: `${version < 25 ? LONG : ''}${number}`, num_points: 0 })),
  );
  const point = { series_id: 1, value: 0.1 + 0.2, recorded_at: 4 };
  await each(13, 'metric_points', { position: 0, step: 2, gradient_step: 1, ...point });
  const event = { entity_id: 'e', model_id: 'm', created_at: 4 };
  await each(
    13,
    'feed',
    { type: 'gradient_step', job_id: 'j1', event_id: 'v1', ...event },
    { type: 'model_created', data: '{}', ...event },
  );
  await each(14, 'trajectory_sets', { id: 'j1', model_id: 'm', job_id: 'j1', split: 'train', step: 1 });
  const trajectory = { set_position: 1, model_position: 1, group_index: 0, trajectory_index: 0, reward: 1e-17 };
  await each(14, 'trajectories', { outcome: 'trained', advantage: 1 / 7, ...trajectory });
  const trace = { trajectory_position: 1, model_position: 1, gradient_step: 0, size_bytes: 4, created_at: 4 };
  await each(14, 'token_traces', { trace: BYTES, ...trace });
  await each(15, 'tracker_positions', { tracker: 'mlflow', position: 3 });
  await each(15, 'tracked_runs', { tracker: 'mlflow', model_id: 'm', run: 'r', num_gradient_steps: 1 });
  await each(17, 'sign_ins', { kind: 'session', secret_sha256: BYTES, key_id: 'k', expires_at: 2 ** 52 });
  await each(18, 'blob_places', { only_row: 1, id: 'the-blobs' });
  await each(19, 'members', {
    id: 'w',
    role: 'trainer',
    version: '0',
    facts: '{}',
    started_at: 1,
    lease_expires_at: 2,
  });
  await each(23, 'key_budgets', { key_id: 'k', used_requests: 1 / 3, used_tokens: 1e300, used_at: 1 });
  await each(23, 'requests_in_flight', { key_id: 'k', process_id: 'w', num_requests: 1, lease_expires_at: 2 });
  await each(27, 'trusted_clock', { only_row: 1, trusted_at: 2 ** 52 });
  const kept = {
    entity_id: 'e',
    project: 'demo',
    key_id: 'k',
    model_id: 'm',
    created_at: 1,
    expires_at: 2,
    size_bytes: 4,
  };
  await each(30, 'kept_answers', { id: 'resp_1', status: 'completed', answer: BYTES, input: BYTES, ...kept });
  await each(30, 'kept_items', { answer_position: 1, id: 'msg_1' });
  await each(30, 'kept_answer_events', { answer_position: 1, first_number: 0, events: BYTES });
  const conversation = { entity_id: 'e', project: 'demo', metadata: '{}', created_at: 1, used_at: 1, expires_at: 2 };
  await each(31, 'conversations', {
    id: 'conv_1',
    size_bytes: 4,
    text_bytes: 9,
    num_items: 1,
    next_place: 1,
    ...conversation,
  });
  await each(31, 'conversation_items', { conversation_position: 1, place: 0, id: 'msg_1', item: BYTES, text_bytes: 9 });
  return filled;
}

/** Version 12 made exports jobs. */
async function addExports(
  each: (first: number, table: string, ...rows: Row[]) => Promise<void>,
  version: number,
): Promise<void> {
  const exported = { model_id: 'm', format: 'peft', dtype: 'f32', files: '[]' };
  if (version < 12) {
    const queued = { step: 1, source_artifact_key: 'checkpoints/1', source_digest: 'd', created_at: 3, ...exported };
    await each(
      4,
      'exports',
      { id: 'x1', status: 'succeeded', artifact_key: 'exports/1', parity: '{}', finished_at: 6, ...queued },
      { id: 'x2', status: 'running', started_at: 4, ...queued },
      { id: 'x3', status: 'queued', deleted_at: 7, ...queued },
    );
    return;
  }
  const job = { entity_id: 'e', model_id: 'm', kind: 'export', config: '{}', start_step: 1, created_at: 3 };
  await each(
    12,
    'jobs',
    { id: 'x1', turn: 'x1', status: 'succeeded', finished_at: 6, ...job },
    { id: 'x2', turn: 'x2', status: 'queued', start_artifact_key: 'checkpoints/1', start_digest: 'd', ...job },
  );
  await each(
    12,
    'exports',
    { id: 'x1', artifact_key: 'exports/1', parity: '{}', ...exported },
    { id: 'x2', ...exported },
  );
}
