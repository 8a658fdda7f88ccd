/** Every table, referenced ones first. The version of the schema is in none. */
export const TABLE_NAMES = [
  'entities',
  'api_keys',
  'sign_ins',
  'models',
  'model_tags',
  'jobs',
  'checkpoints',
  'job_events',
  'trajectory_logs',
  'artifacts',
  'exports',
  'adapters',
  'answer_records',
  'choice_records',
  'kept_answers',
  'kept_items',
  'kept_answer_events',
  'conversations',
  'conversation_items',
  'idempotency_records',
  'usage',
  'announced_keys',
  'metric_series',
  'metric_points',
  'feed',
  'trajectory_sets',
  'trajectories',
  'token_traces',
  'tracker_positions',
  'tracked_runs',
  'blob_places',
  'trusted_clock',
  'members',
  'key_budgets',
  'requests_in_flight',
] as const;

export type TableName = (typeof TABLE_NAMES)[number];

/**
 * Tables that refuse rows in some orders: no event follows a terminal one. A server returns the rows of a
 * table in any order.
 */
const ORDER_WRITTEN: Partial<Record<TableName, string>> = { job_events: 'job_id, seq' };

/** Selects a whole table, in an order in which its rows can be inserted elsewhere. */
export function selectAll(table: TableName): string {
  const order = ORDER_WRITTEN[table];
  return `select * from ${table}${order === undefined ? '' : ` order by ${order}`}`;
}
