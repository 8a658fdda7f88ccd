/** Every table, those before that others point to. The version of the schema is no row of any. */
export const TABLE_NAMES = [
  'entities',
  'api_keys',
  'sign_ins',
  'models',
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
 * Tables whose rows are refused in some orders: nothing comes behind a terminal event. A server keeps rows wherever there is room for them, so that reading a
 * table gives them in no order.
 */
const ORDER_WRITTEN: Partial<Record<TableName, string>> = { job_events: 'job_id, seq' };

/** Reads a whole table, in an order in which its rows can be written to another. */
export function selectAll(table: TableName): string {
  const order = ORDER_WRITTEN[table];
  return `select * from ${table}${order === undefined ? '' : ` order by ${order}`}`;
}
