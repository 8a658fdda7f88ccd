import type { Usage, UsageGroup, UsageKind, UsagePart, UsageTotal } from './usage.ts';
import type { Statements } from '../../contract/sql.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

type TotalRow = {
  entity_id: string;
  project: string | null;
  model: string;
  kind: UsageKind;
  num_requests: number;
  prompt_tokens: number;
  completion_tokens: number;
};

type GroupRow = {
  project_part: string | null;
  key_part: string;
  model_part: string;
  kind_part: UsageKind;
  day_part: number;
};
/** Sums are null without any usage. */
type SumRow = { num_requests: number | null; prompt_tokens: number | null; completion_tokens: number | null };

const PARTS: Readonly<Record<UsagePart, string>> = {
  project: 'project',
  key: 'key_id',
  model: 'model',
  kind: 'kind',
  day: `recorded_at / ${DAY_MS}`,
};

/** Tokens of requests with the same key, project, model and kind. */
export type SummedUsage = Usage & { numRequests: number };

/** Token usage: rows of a moment, and rows of an hour into which older ones are merged. */
export class UsageTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** @param name lets `set` find the row; default none */
  async insert(sum: SummedUsage, now: number, name: string | null = null): Promise<void> {
    await this.#sql.run(
      `insert into usage (name, recorded_at, key_id, entity_id, project, model, kind, num_requests, prompt_tokens, completion_tokens)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      name,
      now,
      sum.keyId,
      sum.entityId,
      sum.project,
      sum.model,
      sum.kind,
      sum.numRequests,
      sum.promptTokens,
      sum.completionTokens,
    );
  }

  /** Replaces the sums of that row. False if it does not exist. */
  async set(name: string, sum: SummedUsage): Promise<boolean> {
    const numChanged = await this.#sql.run(
      'update usage set num_requests = ?, prompt_tokens = ?, completion_tokens = ? where name = ?',
      sum.numRequests,
      sum.promptTokens,
      sum.completionTokens,
      name,
    );
    return numChanged === 1;
  }

  async sum(query: { entityId?: string; from?: number; to?: number }): Promise<UsageTotal[]> {
    const conditions = ['recorded_at >= ?', 'recorded_at < ?'];
    const parameters: (string | number)[] = [query.from ?? 0, query.to ?? Number.MAX_SAFE_INTEGER];
    if (query.entityId !== undefined) {
      conditions.push('entity_id = ?');
      parameters.push(query.entityId);
    }
    const rows = await this.#sql.all<TotalRow>(
      `select entity_id, project, model, kind, ${SUMS.map((name) => `${totalOf(name)} as ${name}`).join(', ')}
       from usage where ${conditions.join(' and ')} group by entity_id, project, model, kind
       order by entity_id, project is not null, project, model, kind`,
      ...parameters,
    );
    return rows.map((row) => ({
      entityId: row.entity_id,
      project: row.project,
      model: row.model,
      kind: row.kind,
      numRequests: row.num_requests,
      promptTokens: row.prompt_tokens,
      completionTokens: row.completion_tokens,
    }));
  }

  /** See `Store.usage.group`. */
  async group(query: {
    entityId: string;
    by: readonly UsagePart[];
    from: number;
    to: number;
    limit: number;
  }): Promise<UsageGroup[]> {
    const by = [...new Set(query.by)];
    const columns = by.map((part) => `${PARTS[part]} as ${part}_part`);
    const groups = by.map((part) => PARTS[part]);
    const order = by.map((part) => (part === 'project' ? 'project is not null, project' : PARTS[part]));
    const rows = await this.#sql.all<Partial<GroupRow> & SumRow>(
      `select ${[...columns, ...SUMS.map((name) => `${totalOf(name)} as ${name}`)].join(', ')}
       from usage where entity_id = ? and recorded_at >= ? and recorded_at < ?
       ${by.length === 0 ? '' : `group by ${groups.join(', ')} order by ${order.join(', ')}`} limit ?`,
      query.entityId,
      query.from,
      query.to,
      query.limit,
    );
    return rows
      .filter((row) => row.num_requests !== null)
      .map((row) => ({
        ...(row.project_part === undefined ? {} : { project: row.project_part }),
        ...(row.key_part === undefined ? {} : { keyId: row.key_part }),
        ...(row.model_part === undefined ? {} : { model: row.model_part }),
        ...(row.kind_part === undefined ? {} : { kind: row.kind_part }),
        ...(row.day_part === undefined ? {} : { day: row.day_part * DAY_MS }),
        numRequests: row.num_requests ?? 0,
        promptTokens: row.prompt_tokens ?? 0,
        completionTokens: row.completion_tokens ?? 0,
      }));
  }

  /** See `Store.usage.merge`. */
  async merge(before: number, limit: number): Promise<number> {
    const oldest = 'select id from usage where is_hour = 0 and recorded_at < ? order by recorded_at, id limit ?';
    const wholeHours = Math.floor(before / HOUR_MS) * HOUR_MS;
    await this.#sql.run(
      `insert into usage (is_hour, recorded_at, key_id, entity_id, project, model, kind, num_requests, prompt_tokens, completion_tokens)
       select 1, recorded_at / ${HOUR_MS} * ${HOUR_MS} as hour, key_id, entity_id, project, model, kind, ${SUMS.map(totalOf).join(', ')}
       from usage where id in (${oldest}) group by hour, key_id, entity_id, project, model, kind
       on conflict (recorded_at, key_id, entity_id, (coalesce(project, '')), (project is null), model, kind) where is_hour = 1 do update set
         ${SUMS.map((name) => `${name} = usage.${name} + excluded.${name}`).join(', ')}`,
      wholeHours,
      limit,
    );
    return await this.#sql.run(`delete from usage where id in (${oldest})`, wholeHours, limit);
  }
}

const SUMS = ['num_requests', 'prompt_tokens', 'completion_tokens'] as const;

function totalOf(column: string): string {
  return `cast(sum(${column}) as bigint)`;
}
