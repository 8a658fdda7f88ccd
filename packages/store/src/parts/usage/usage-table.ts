import type { Usage, UsageGroup, UsageKind, UsagePart, UsageQuery, UsageTotal } from './usage.ts';
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
  num_steps: number;
};
/** Sums are null without any usage. */
type SumRow = { num_requests: number | null; prompt_tokens: number | null; completion_tokens: number | null };

/** Characters of a model's name that are not its slashes. */
const LETTERS = "replace(model, '/', '')";
/** `demo` of `local/demo/x:step3`; null for a base model. */
const PROJECT_OF_MODEL = `nullif(trim(ltrim(rtrim(model, ${LETTERS}), ${LETTERS}), '/'), '')`;
/** `local/demo/x:step` of `local/demo/x:step3`. */
const WITHOUT_NUMBER = "rtrim(model, '0123456789')";
const IS_STEP = `${WITHOUT_NUMBER} <> model and substr(${WITHOUT_NUMBER}, length(${WITHOUT_NUMBER}) - 4) = ':step'`;
/** `local/demo/x` of `local/demo/x:step3`. */
const WITHOUT_STEP = `case when ${IS_STEP} then substr(${WITHOUT_NUMBER}, 1, length(${WITHOUT_NUMBER}) - 5) else model end`;

/** Parts as expressions over rows of `sumsOf`. */
const PARTS: Readonly<Record<UsagePart, string>> = {
  project: `coalesce(project, ${PROJECT_OF_MODEL})`,
  key: 'key_id',
  model: 'model',
  kind: 'kind',
  day: 'day',
};
/** Columns of the usage that a part is made of. */
const COLUMNS: Readonly<Record<UsagePart, readonly string[]>> = {
  project: ['project', 'model'],
  key: ['key_id'],
  model: ['model'],
  kind: ['kind'],
  day: ['day'],
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
  async group(query: UsageQuery): Promise<UsageGroup[]> {
    const { foldsSteps = false, project, modelText } = query;
    const by = [...new Set(query.by)];
    const groups = by.map((part) => (part === 'model' && foldsSteps ? WITHOUT_STEP : PARTS[part]));
    const order = groups.map((group, index) => (by[index] === 'project' ? `${group} is not null, ${group}` : group));
    const isFolded = foldsSteps && by.includes('model');
    const filter = new Conditions();
    if (project === null) filter.add(`${PARTS.project} is null`);
    else if (project !== undefined) filter.add(`${PARTS.project} = ?`, project);
    if (modelText !== undefined)
      filter.add(`lower(model) like ? escape '!'`, `%${modelText.toLowerCase().replaceAll(/[!%_]/g, '!$&')}%`);
    const sums = sumsOf(query, by);
    const rows = await this.#sql.all<Partial<GroupRow> & SumRow>(
      `select ${[
        ...groups.map((group, index) => `${group} as ${by[index]}_part`),
        ...(isFolded ? [`count(distinct case when ${IS_STEP} then model end) as num_steps`] : []),
        ...SUMS.map((name) => `${totalOf(name)} as ${name}`),
      ].join(', ')} from (${sums.statement}) as used ${filter.where}
       ${by.length === 0 ? '' : `group by ${groups.join(', ')} order by ${order.join(', ')}`} limit ?`,
      ...sums.parameters,
      ...filter.parameters,
      query.limit,
    );
    return rows
      .filter((row) => row.num_requests !== null)
      .map((row) => ({
        ...(row.project_part === undefined ? {} : { project: row.project_part }),
        ...(row.key_part === undefined ? {} : { keyId: row.key_part }),
        ...(row.model_part === undefined ? {} : { model: row.model_part }),
        ...(row.num_steps === undefined ? {} : { numSteps: row.num_steps }),
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

/**
 * Sums by the columns that parts and filters need. Texts are taken apart only in these rows, of which there are few:
 * that takes a third of the time for 100,000 rows of usage.
 */
function sumsOf(
  { entityId, from, to, project, keyIds, modelText, kinds }: UsageQuery,
  by: readonly UsagePart[],
): { statement: string; parameters: (string | number)[] } {
  const needed: readonly UsagePart[] = [
    ...by,
    ...(project === undefined ? [] : (['project'] as const)),
    ...(modelText === undefined ? [] : (['model'] as const)),
  ];
  const columns = [...new Set(needed.flatMap((part) => COLUMNS[part]))];
  const conditions = new Conditions();
  conditions.add('entity_id = ?', entityId);
  conditions.add('recorded_at >= ?', from);
  conditions.add('recorded_at < ?', to);
  if (keyIds !== undefined) conditions.addOneOf('key_id', keyIds);
  if (kinds !== undefined) conditions.addOneOf('kind', kinds);
  const day = `recorded_at / ${DAY_MS}`;
  const selected = [
    ...columns.map((column) => (column === 'day' ? `${day} as day` : column)),
    ...SUMS.map((name) => `${totalOf(name)} as ${name}`),
  ];
  const groups = columns.map((column) => (column === 'day' ? day : column));
  return {
    statement: `select ${selected.join(', ')} from usage ${conditions.where} ${groups.length === 0 ? '' : `group by ${groups.join(', ')}`}`,
    parameters: conditions.parameters,
  };
}

/** Conditions of a statement that all hold. */
class Conditions {
  readonly #texts: string[] = [];
  readonly parameters: (string | number)[] = [];

  add(text: string, ...parameters: readonly (string | number)[]): void {
    this.#texts.push(text);
    this.parameters.push(...parameters);
  }

  addOneOf(column: string, values: readonly string[]): void {
    // `in ()` is a syntax error in PostgreSQL.
    if (values.length === 0) this.add('1 = 0');
    else this.add(`${column} in (${values.map(() => '?').join(', ')})`, ...values);
  }

  get where(): string {
    return this.#texts.length === 0 ? '' : `where ${this.#texts.join(' and ')}`;
  }
}

const SUMS = ['num_requests', 'prompt_tokens', 'completion_tokens'] as const;

function totalOf(column: string): string {
  return `cast(sum(${column}) as bigint)`;
}
