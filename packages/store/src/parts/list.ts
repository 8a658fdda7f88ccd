import assert from 'node:assert/strict';
import { StoreError } from '../contract/errors.ts';
import type { OrderedPageQuery, Page } from '../contract/page.ts';
import type { SqlRow, SqlParameter, Statements } from '../contract/sql.ts';

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 1000;

/** A condition with one parameter, e.g. `['model_id = ?', modelId]`; a null or absent value omits it. */
export type Filter = readonly [condition: string, value: SqlParameter | undefined];

/** A pageable list. All texts are constants of this package, never input. */
export interface ListSource {
  /** Noun for the message about an unknown cursor. */
  name: string;
  columns: string;
  /** Table or join. */
  from: string;
  id: string;
  /** Column that orders the list, unique within it. */
  position: string;
  /** Conditions of the rows of the list, including deleted ones. */
  filters: readonly Filter[];
  /** Condition of the visible rows. */
  visible?: { condition: string; parameters?: readonly SqlParameter[] };
}

/**
 * Reads one page. The cursor is converted to its row's position, also if that row was deleted since, so a
 * client always advances.
 * @throws {StoreError} `store.cursor_unknown`
 */
export async function listPage<Row extends SqlRow, Item>(
  sql: Statements,
  source: ListSource,
  query: OrderedPageQuery,
  toItem: (row: Row) => Item,
): Promise<Page<Item>> {
  const limit = query.limit ?? DEFAULT_LIMIT;
  assert(
    Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT,
    `limit must be an integer in 1..${MAX_LIMIT}, got ${limit}`,
  );
  const isAscending = query.order !== 'desc';
  const conditions: string[] = [];
  const parameters: SqlParameter[] = [];
  for (const [condition, value] of source.filters) {
    if (value === undefined || value === null) continue;
    conditions.push(condition);
    parameters.push(value);
  }
  if (query.after !== undefined && query.after !== null) {
    const statement = `select ${source.position} as position from ${source.from} where ${[...conditions, `${source.id} = ?`].join(' and ')}`;
    const cursor = await sql.get<{ position: number }>(statement, ...parameters, query.after);
    if (cursor === undefined)
      throw new StoreError(
        'store.cursor_unknown',
        `after: ${JSON.stringify(query.after)} is not the id of one of the listed ${source.name}`,
      );
    conditions.push(`${source.position} ${isAscending ? '>' : '<'} ?`);
    parameters.push(cursor.position);
  }
  if (source.visible !== undefined) {
    conditions.push(source.visible.condition);
    parameters.push(...(source.visible.parameters ?? []));
  }
  const where = conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`;
  // One extra row shows if there is a next page.
  const statement = `select ${source.columns} from ${source.from} ${where} order by ${source.position} ${isAscending ? 'asc' : 'desc'} limit ?`;
  const rows = await sql.all<Row>(statement, ...parameters, limit + 1);
  return { items: rows.slice(0, limit).map(toItem), hasMore: rows.length > limit };
}
