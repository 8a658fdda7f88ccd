import assert from 'node:assert/strict';
import { StoreError } from '../../contract/errors.ts';
import { metricsText, parseMetrics } from '../json-column.ts';
import { partsOf, rowsOf, rowsOfIds } from '../rows-of.ts';
import type { Page } from '../../contract/page.ts';
import type { SqlParameter, Statements } from '../../contract/sql.ts';
import type {
  GroupContents,
  GroupRewards,
  NewTokenTrace,
  OutdatedContents,
  TokenTrace,
  TrajectoryContents,
  TrajectoryOutcome,
  TrajectoryQuery,
  TrajectoryRecord,
  TrajectorySort,
  TrajectorySummary,
} from './trajectories.ts';

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 1000;
/** Rows that are sorted in a few milliseconds. */
const RARE = 5_000;
const DELETED_IDS = 'select id from models where deleted_at is not null';
const DELETED_POSITIONS = 'select position from models where deleted_at is not null';
/** Rows per statement: batches of this size cost a quarter of single rows. */
const ROWS_AT_A_TIME = 50;

/** A job or log, with the properties that all its trajectories share. */
export interface NewTrajectorySet {
  id: string;
  modelId: string;
  jobId: string | null;
  split: string;
  step: number;
}

type PlaceInSet = Pick<NewTokenTrace, 'groupIndex' | 'trajectoryIndex'>;

export type PlacedOutcome = PlaceInSet & TrajectoryOutcome;

type SummaryRow = {
  position: number;
  set_id: string;
  model_id: string;
  job_id: string | null;
  split: string;
  step: number;
  group_index: number;
  trajectory_index: number;
  reward: number;
  outcome: string | null;
  advantage: number | null;
  prompt_digest: string | null;
  question: string | null;
  reply: string | null;
  num_turns: number;
  num_tokens: number;
  finish_reason: string | null;
  metrics: string | null;
  created_at: number;
};

/** `contents` of a set, as in the migration. */
const CONTENTS = { outdated: 0, current: 1, removed: 2, expired: 3 } as const;
/** Columns of the contents, and the SQL types of their values. */
const CONTENT_TYPES = {
  prompt_digest: 'text',
  question: 'text',
  reply: 'text',
  num_turns: 'bigint',
  num_tokens: 'bigint',
  finish_reason: 'text',
  metrics: 'text',
} as const;
const CONTENT_COLUMNS = Object.keys(CONTENT_TYPES);

// A digest by an older rule may be equal for different prompts. Texts are hidden as soon as they expire.
const COLUMNS = `t.position, s.id as set_id, s.model_id, s.job_id, s.split, s.step, t.group_index, t.trajectory_index, t.reward,
  t.outcome, t.advantage, t.num_turns, t.num_tokens, t.finish_reason, t.metrics,
  case when s.job_id is null then (select l.created_at from trajectory_logs l where l.id = s.id)
    else (select j.created_at from jobs j where j.id = s.job_id) end as created_at,
  case when s.contents <> ${CONTENTS.outdated} then t.prompt_digest end as prompt_digest,
  case when s.contents = ${CONTENTS.current} then t.question end as question,
  case when s.contents = ${CONTENTS.current} then t.reply end as reply`;
const FROM = 'trajectories t join trajectory_sets s on s.position = t.set_position';
const INSERT = `insert into trajectories (set_position, model_position, group_index, trajectory_index, reward, ${CONTENT_COLUMNS.join(', ')}) values`;
const NEW_ROW = `(?, ?, ?, ?, ?, ${rowsOf(CONTENT_COLUMNS.length, '?')})`;
/** Blob of a set `s`; null once its data are removed. */
const BLOB_KEY = `case when s.job_id is null
  then (select blob_key from trajectory_logs l where l.id = s.id and l.data_removed_at is null)
  else (select data_key from jobs j where j.id = s.job_id and j.data_removed_at is null) end`;
const INSERT_TRACES =
  'insert into token_traces (trajectory_position, model_position, gradient_step, size_bytes, created_at, trace) values';
const ROW = '(?, ?, ?, ?, ?, ?)';

export class TrajectoryTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  async insert(set: NewTrajectorySet, rewards: GroupRewards, contents: GroupContents | null): Promise<void> {
    if (!rewards.some((group) => group.length > 0)) return;
    const made = await this.#sql.get<{ position: number; model_position: number }>(
      `insert into trajectory_sets (id, model_id, job_id, split, step, contents) values (?, ?, ?, ?, ?, ?)
       returning position, (select m.position from models m where m.id = model_id) as model_position`,
      set.id,
      set.modelId,
      set.jobId,
      set.split,
      set.step,
      contents === null ? CONTENTS.outdated : CONTENTS.current,
    );
    if (made === undefined) throw new Error(`the trajectories of ${set.id} vanished`);
    const { position, model_position: modelPosition } = made;
    const rows = rewards.flatMap((group, groupIndex) =>
      group.map((reward, index) => {
        const content = contentValues(contents?.[groupIndex]?.[index]);
        return [position, modelPosition, groupIndex, index, finite(reward), ...content];
      }),
    );
    for (const some of partsOf(rows, ROWS_AT_A_TIME))
      await this.#sql.run(`${INSERT} ${rowsOf(some.length, NEW_ROW)}`, ...some.flat());
  }

  /** Lists the trajectories of a set again for another job of the model, without their outcomes. */
  async copySet(from: string, jobId: string, modelId: string): Promise<void> {
    const made = await this.#sql.get<{ position: number; source: number }>(
      `insert into trajectory_sets (id, model_id, job_id, split, step, contents)
       select ?, s.model_id, ?, s.split, coalesce((select max(c.step) from checkpoints c where c.model_id = ? and c.deleted_at is null), s.step), s.contents
       from trajectory_sets s where s.id = ?
       returning position, (select o.position from trajectory_sets o where o.id = ?) as source`,
      jobId,
      jobId,
      modelId,
      from,
      from,
    );
    if (made === undefined) return;
    const columns = ['model_position', 'group_index', 'trajectory_index', 'reward', ...CONTENT_COLUMNS].join(', ');
    await this.#sql.run(
      `insert into trajectories (set_position, ${columns})
       select cast(? as bigint), ${columns} from trajectories where set_position = ? order by position`,
      made.position,
      made.source,
    );
  }

  /** Newest first. */
  async listOutdatedContents(limit: number): Promise<OutdatedContents[]> {
    const rows = await this.#sql.all<{ set_id: string; blob_key: string | null }>(
      `select s.id as set_id, ${BLOB_KEY} as blob_key
       from trajectory_sets s join models m on m.id = s.model_id
       where s.contents in (${CONTENTS.outdated}, ${CONTENTS.expired}) and m.deleted_at is null order by s.position desc limit ?`,
      limit,
    );
    return rows.map((row) => ({ setId: row.set_id, blobKey: row.blob_key }));
  }

  /** @returns false if the set is not outdated any more */
  async replaceContents(setId: string, firstGroup: number, contents: GroupContents): Promise<boolean> {
    const set = await this.#sql.get<{ position: number }>(
      `select position from trajectory_sets where id = ? and contents = ${CONTENTS.outdated}`,
      setId,
    );
    if (set === undefined) return false;
    const items = contents.flatMap((group, index) =>
      group.map((content, trajectoryIndex) => ({ groupIndex: firstGroup + index, trajectoryIndex, content })),
    );
    const rows = await this.#placed(set.position, items, ({ content }, position) => ({
      position,
      values: contentValues(content),
    }));
    for (const some of partsOf(rows, ROWS_AT_A_TIME)) {
      const changes = Object.entries(CONTENT_TYPES).map(([column, type]) => `${column} = ${chosen(some.length, type)}`);
      await this.#sql.run(
        `update trajectories set ${changes.join(', ')} where position in (${rowsOf(some.length, '?')})`,
        ...CONTENT_COLUMNS.flatMap((_, column) => some.flatMap(({ position, values }) => [position, values[column]!])),
        ...some.map(({ position }) => position),
      );
    }
    return true;
  }

  async settleContents(setId: string, end: 'kept' | 'removed'): Promise<void> {
    if (end === 'kept') {
      await this.#sql.run(
        `update trajectory_sets set contents = ${CONTENTS.current} where id = ? and contents = ${CONTENTS.outdated}`,
        setId,
      );
      return;
    }
    const set = await this.#sql.get<{ position: number; contents: number }>(
      `select position, contents from trajectory_sets where id = ? and contents in (${CONTENTS.outdated}, ${CONTENTS.expired})`,
      setId,
    );
    if (set === undefined) return;
    // A digest by an older rule may be equal for different prompts, and can no longer be computed again.
    const digest = set.contents === CONTENTS.outdated ? ', prompt_digest = null' : '';
    await this.#sql.run(
      `update trajectories set question = null, reply = null${digest} where set_position = ?`,
      set.position,
    );
    await this.#sql.run(`update trajectory_sets set contents = ${CONTENTS.removed} where position = ?`, set.position);
  }

  /** Hides the texts of jobs and logs with these blobs, to be removed later. */
  async expireContents(blobKeys: readonly string[]): Promise<void> {
    await rowsOfIds(
      this.#sql,
      blobKeys,
      (marks) => `update trajectory_sets set contents = ${CONTENTS.expired} where contents = ${CONTENTS.current}
         and id in (select id from jobs where data_key in (${marks}) and data_removed_at is not null) returning id`,
    );
    await rowsOfIds(
      this.#sql,
      blobKeys,
      (marks) => `update trajectory_sets set contents = ${CONTENTS.expired} where contents = ${CONTENTS.current}
         and id in (select id from trajectory_logs where blob_key in (${marks}) and data_removed_at is not null) returning id`,
    );
  }

  async setStep(jobId: string, step: number): Promise<void> {
    await this.#sql.run('update trajectory_sets set step = ? where job_id = ? and step <> ?', step, jobId, step);
  }

  /**
   * @param outcomes of all trajectories of the job or of a contiguous part, in the order of the groups as
   *   sent
   */
  async setOutcomes(jobId: string, outcomes: readonly PlacedOutcome[]): Promise<void> {
    const set = await this.#setOf(jobId);
    if (set === undefined) return;
    const rows = await this.#placed(set, outcomes, ({ outcome, advantage }, position) => ({
      position,
      outcome,
      advantage,
    }));
    for (const some of partsOf(rows, ROWS_AT_A_TIME))
      // Selects by keys without a join: with outdated statistics of a growing table, a server would scan it
      // for each statement.
      await this.#sql.run(
        `update trajectories set outcome = ${chosen(some.length, 'text')}, advantage = ${chosen(some.length, 'double precision')}
         where position in (${rowsOf(some.length, '?')})`,
        ...some.flatMap(({ position, outcome }) => [position, outcome]),
        ...some.flatMap(({ position, advantage }) => [position, advantage]),
        ...some.map(({ position }) => position),
      );
  }

  /** @param maxBytes of all traces of the model: the oldest are removed first */
  async addTraces(
    jobId: string,
    gradientStep: number,
    traces: readonly NewTokenTrace[],
    { maxBytes, now }: { maxBytes: number; now: number },
  ): Promise<void> {
    const set = await this.#setOf(jobId);
    if (set === undefined) return;
    const rows = await this.#placed(set, traces, ({ trace }, ...place) => [
      ...place,
      gradientStep,
      trace.byteLength,
      now,
      trace,
    ]);
    for (const some of partsOf(rows, ROWS_AT_A_TIME))
      await this.#sql.run(`${INSERT_TRACES} ${rowsOf(some.length, ROW)}`, ...some.flat());
    await this.#trimTraces(jobId, maxBytes);
  }

  /**
   * Builds rows for trajectories of a set, with the positions of each trajectory and of its model; skips
   * missing ones.
   */
  async #placed<Item extends PlaceInSet, Row>(
    set: number,
    all: readonly Item[],
    toRow: (item: Item, position: number, modelPosition: number) => Row,
  ): Promise<Row[]> {
    if (all.length === 0) return [];
    let [first, last] = [Infinity, -Infinity];
    for (const { groupIndex } of all) [first, last] = [Math.min(first, groupIndex), Math.max(last, groupIndex)];
    const found = await this.#sql.all<
      Record<'position' | 'model_position' | 'group_index' | 'trajectory_index', number>
    >(
      `select position, model_position, group_index, trajectory_index from trajectories
       where set_position = ? and group_index >= ? and group_index <= ?`,
      set,
      first,
      last,
    );
    const places = new Map(
      found.map((row) => [nameOf({ groupIndex: row.group_index, trajectoryIndex: row.trajectory_index }), row]),
    );
    return all.flatMap((item) => {
      const place = places.get(nameOf(item));
      return place === undefined ? [] : [toRow(item, place.position, place.model_position)];
    });
  }

  async #trimTraces(jobId: string, maxBytes: number): Promise<void> {
    const model = await this.#sql.get<{ position: number; bytes: number }>(
      `select m.position, (select cast(coalesce(sum(size_bytes), 0) as bigint) from token_traces where model_position = m.position) as bytes
       from models m join jobs j on j.model_id = m.id where j.id = ?`,
      jobId,
    );
    if (model === undefined || model.bytes <= maxBytes) return;
    await this.#sql.run(
      `delete from token_traces where position in (
         select position from (
           select position, sum(size_bytes) over (order by position desc) as newer from token_traces where model_position = ?) sized
         where newer > ?)`,
      model.position,
      maxBytes,
    );
  }

  async listTraces(trajectoryId: string): Promise<TokenTrace[]> {
    const place = placeOf(trajectoryId);
    if (place === null) return [];
    const rows = await this.#sql.all<{ gradient_step: number; trace: NodeJS.NonSharedUint8Array }>(
      `select x.gradient_step, x.trace from ${FROM} join models m on m.id = s.model_id join token_traces x on x.trajectory_position = t.position
       where m.deleted_at is null and s.id = ? and t.group_index = ? and t.trajectory_index = ? order by x.position`,
      ...place,
    );
    return rows.map((row) => ({ gradientStep: row.gradient_step, trace: row.trace }));
  }

  /** Returns null if it is unknown, or its model is deleted. */
  async get(trajectoryId: string): Promise<TrajectoryRecord | null> {
    const place = placeOf(trajectoryId);
    if (place === null) return null;
    const row = await this.#sql.get<SummaryRow & { entity_id: string; blob_key: string | null }>(
      `select ${COLUMNS}, m.entity_id, ${BLOB_KEY} as blob_key
       from ${FROM} join models m on m.id = s.model_id
       where s.id = ? and t.group_index = ? and t.trajectory_index = ? and m.deleted_at is null`,
      ...place,
    );
    return row === undefined ? null : { ...toSummary(row), entityId: row.entity_id, blobKey: row.blob_key };
  }

  /** @throws {StoreError} `store.cursor_unknown` */
  async list(query: TrajectoryQuery): Promise<Page<TrajectorySummary>> {
    const { modelId, limit = DEFAULT_LIMIT, after, sort = 'position' } = query;
    assert(
      Number.isInteger(limit) && limit >= 1 && limit <= MAX_LIMIT,
      `limit must be an integer in 1..${MAX_LIMIT}, got ${limit}`,
    );
    const isRare = sort !== 'position' && (await this.#isRare(query));
    const { conditions, parameters } = filterOf(query, {
      walksSplit: sort !== 'position' && (await this.#isCommonSplit(query)),
      walksOrder: sort !== 'position' && !isRare,
    });
    const isAscending = query.order !== 'desc';
    if (after !== undefined && after !== null) {
      const cursor = await this.#cursor(after, modelId);
      const sign = isAscending ? '>' : '<';
      if (sort !== 'position') {
        conditions.push(`(t.${sort}, t.position) ${sign} (?, ?)`);
        parameters.push(cursor[sort], cursor.position);
      } else {
        conditions.push(`t.position ${sign} ?`);
        parameters.push(cursor.position);
      }
    }
    const direction = isAscending ? 'asc' : 'desc';
    // The sum keeps a database from walking through the index of the order, in which few rows match.
    const term = isRare ? ' + 0' : '';
    const order =
      sort === 'position' ? `t.position ${direction}` : `t.${sort}${term} ${direction}, t.position${term} ${direction}`;
    const rows = await this.#sql.all<SummaryRow>(
      `select ${COLUMNS} from ${FROM} where ${conditions.join(' and ')} order by ${order} limit ?`,
      ...parameters,
      limit + 1,
    );
    return { items: rows.slice(0, limit).map(toSummary), hasMore: rows.length > limit };
  }

  /** True if the only filter of jobs and logs is a split with many trajectories: sorting all would take long. */
  async #isCommonSplit({ modelId, split, step, jobId, logId }: TrajectoryQuery): Promise<boolean> {
    if (split === undefined || step !== undefined || jobId !== undefined || logId !== undefined) return false;
    const row = await this.#sql.get<{ number: number }>(
      `select cast(count(*) as bigint) as number from (
         select 1 as one from trajectories
         where set_position in (select position from trajectory_sets where model_id = ? and split = ?) limit ?) matching`,
      modelId,
      split,
      RARE + 1,
    );
    return (row?.number ?? 0) > RARE;
  }

  /** True if only some thousand trajectories of the model have the wanted outcome and end: they are sorted fast. */
  async #isRare({ modelId, outcome, finishReason }: TrajectoryQuery): Promise<boolean> {
    for (const [column, value] of [
      ['outcome', outcome],
      ['finish_reason', finishReason],
    ] as const) {
      if (value === undefined) continue;
      const row = await this.#sql.get<{ number: number }>(
        `select cast(count(*) as bigint) as number from (
           select 1 as one from trajectories
           where model_position = (select position from models where id = ?) and ${column} = ? limit ?) matching`,
        modelId,
        value,
        RARE + 1,
      );
      if ((row?.number ?? 0) <= RARE) return true;
    }
    return false;
  }

  async #cursor(trajectoryId: string, modelId: string): Promise<Record<TrajectorySort, number>> {
    const place = placeOf(trajectoryId);
    const row =
      place === null
        ? undefined
        : await this.#sql.get<Record<TrajectorySort, number>>(
            `select t.position, t.reward, t.num_tokens, t.num_turns from ${FROM}
             where s.id = ? and t.group_index = ? and t.trajectory_index = ? and s.model_id = ?`,
            ...place,
            modelId,
          );
    if (row !== undefined) return row;
    throw new StoreError(
      'store.cursor_unknown',
      `after: ${JSON.stringify(trajectoryId)} is not the id of one of the listed trajectories`,
    );
  }

  /** Removes up to `limit` traces from before that time. */
  async expireTraces(before: number, limit: number): Promise<void> {
    await this.#sql.run(
      'delete from token_traces where position in (select position from token_traces where created_at < ? order by created_at limit ?)',
      before,
      limit,
    );
  }

  /**
   * Removes up to `limit` rows of deleted models, dependent ones first.
   * @returns the number removed; less than `limit` if there are no more
   */
  async deleteOfDeleted(limit: number): Promise<number> {
    const inTurn = [
      ['token_traces', 'model_position'],
      ['trajectories', 'model_position'],
    ] as const;
    let left = limit;
    for (const [table, column] of inTurn) {
      if (left <= 0) break;
      left -= await this.#sql.run(
        `delete from ${table} where position in (select position from ${table} where ${column} in (${DELETED_POSITIONS}) limit ?)`,
        left,
      );
    }
    if (left <= 0) return limit;
    left -= await this.#sql.run(
      `delete from trajectory_sets where position in (select position from trajectory_sets where model_id in (${DELETED_IDS}) limit ?)`,
      left,
    );
    return limit - left;
  }

  async #setOf(jobId: string): Promise<number | undefined> {
    const row = await this.#sql.get<{ position: number }>('select position from trajectory_sets where id = ?', jobId);
    return row?.position;
  }
}

function nameOf({ groupIndex, trajectoryIndex }: PlaceInSet): string {
  return `${groupIndex}.${trajectoryIndex}`;
}

/**
 * SQL for the value of a row, chosen by its position. The cast is needed because a server assumes text for
 * untyped parameters.
 */
function chosen(number: number, type: string): string {
  return `case position ${Array.from({ length: number }, () => `when ? then cast(? as ${type})`).join(' ')} end`;
}

/**
 * Values of common outcomes and ends are compared row by row, so that no index but that of the order is used.
 *
 * @param options.walksSplit true checks the split row by row, too
 */
function filterOf(
  query: TrajectoryQuery,
  { walksSplit, walksOrder }: { walksSplit: boolean; walksOrder: boolean },
): { conditions: string[]; parameters: SqlParameter[] } {
  const ofSets: [string, SqlParameter | undefined][] = [
    ['id = ?', query.jobId],
    ['job_id is not null', query.jobId],
    ['id = ?', query.logId],
    ['job_id is null', query.logId],
    ['split = ?', walksSplit ? undefined : query.split],
    ['step = ?', query.step],
  ];
  const wanted = ofSets.filter(([, value]) => value !== undefined);
  const conditions: string[] = [];
  const parameters: SqlParameter[] = [];
  if (wanted.length === 0) {
    conditions.push('t.model_position = (select position from models where id = ? and deleted_at is null)');
    parameters.push(query.modelId);
  } else {
    const ofSet = wanted.map(([condition]) => condition).join(' and ');
    conditions.push(`t.set_position in (select position from trajectory_sets
       where model_id = (select id from models where id = ? and deleted_at is null) and ${ofSet})`);
    parameters.push(query.modelId);
    for (const [condition, value] of wanted) if (condition.endsWith('?')) parameters.push(value!);
  }
  for (const [condition, value] of [
    ['s.split = ?', walksSplit ? query.split : undefined],
    ['t.group_index = ?', query.groupIndex],
    [walksOrder ? "coalesce(t.outcome, '') = ?" : 't.outcome = ?', query.outcome],
    ['t.reward >= ?', query.minReward],
    ['t.reward <= ?', query.maxReward],
    [walksOrder ? "coalesce(t.finish_reason, '') = ?" : 't.finish_reason = ?', query.finishReason],
    [`s.contents <> ${CONTENTS.outdated} and t.prompt_digest = ?`, query.promptDigest],
  ] as const) {
    if (value === undefined) continue;
    conditions.push(condition);
    parameters.push(value);
  }
  return { conditions, parameters };
}

/** Parses an id made by `idOf`; null for anything else. */
function placeOf(trajectoryId: string): [setId: string, groupIndex: number, trajectoryIndex: number] | null {
  const [, setId, group, index] = /^([0-9a-z-]{1,100})\.(\d{1,9})\.(\d{1,9})$/.exec(trajectoryId) ?? [];
  return setId === undefined ? null : [setId, Number(group), Number(index)];
}

function idOf({ set_id: setId, group_index: group, trajectory_index: index }: SummaryRow): string {
  return `${setId}.${group}.${index}`;
}

function finite(reward: number): number {
  return Math.min(Math.max(reward, -Number.MAX_VALUE), Number.MAX_VALUE);
}

function toSummary(row: SummaryRow): TrajectorySummary {
  return {
    id: idOf(row),
    modelId: row.model_id,
    jobId: row.job_id,
    logId: row.job_id === null ? row.set_id : null,
    split: row.split,
    step: row.step,
    groupIndex: row.group_index,
    trajectoryIndex: row.trajectory_index,
    reward: row.reward,
    outcome: row.outcome,
    advantage: row.advantage,
    createdAt: row.created_at,
    promptDigest: row.prompt_digest,
    question: row.question,
    reply: row.reply,
    numTurns: knownOrNull(row.num_turns),
    numTokens: knownOrNull(row.num_tokens),
    finishReason: row.finish_reason,
    metrics: row.metrics === null ? {} : parseMetrics(row.metrics),
  };
}

/** In the order of `CONTENT_COLUMNS`. */
function contentValues(content: TrajectoryContents | undefined): SqlParameter[] {
  if (content === undefined) return [null, null, null, UNKNOWN, UNKNOWN, null, null];
  const { promptDigest, question, reply, numTurns, numTokens, finishReason, metrics } = content;
  const hasMetrics = Object.keys(metrics).length > 0;
  return [
    promptDigest,
    question,
    reply,
    numTurns ?? UNKNOWN,
    numTokens ?? UNKNOWN,
    finishReason,
    hasMetrics ? metricsText(metrics) : null,
  ];
}

/** Stored for an unknown number: it sorts before all others. */
const UNKNOWN = -1;

function knownOrNull(number: number): number | null {
  return number === UNKNOWN ? null : number;
}
