import type {
  AnswerKey,
  AnswerStatus,
  KeptAnswerStatus,
  LiveAnswer,
  LostAnswer,
  NewKeptAnswer,
} from './kept-answers.ts';
import type { KeptScope } from './kept-scope.ts';
import { holds, leaseBounds } from '../../contract/lease.ts';
import type { Statements } from '../../contract/sql.ts';
import { HEAD_BYTES } from './packed-json.ts';
import { partsOf, rowsOf, rowsOfIds } from '../rows-of.ts';

/** Bytes of a row in addition to its texts: ids, index entries, and unused space in pages. */
const ROW_BYTES = 600;
/** Answers per step of making room. */
const PRUNED_AT_ONCE = 256;
/** Ids of items per statement. */
const INSERTED_AT_ONCE = 100;

const IS_LIVE = "status in ('queued', 'in_progress')";
const IN_SCOPE = 'entity_id = ? and project = ?';

export interface PackedAnswer extends Omit<NewKeptAnswer<KeptAnswerStatus>, 'answer' | 'input'> {
  readonly answer: Uint8Array;
  readonly input: Uint8Array;
}

export type KeptAnswerRow = {
  id: string;
  entity_id: string;
  project: string;
  status: KeptAnswerStatus;
  answer: Uint8Array<ArrayBuffer>;
  created_at: number;
};

type Heads = { answer: Uint8Array<ArrayBuffer>; input: Uint8Array<ArrayBuffer> };

export type WholeAnswerRow = KeptAnswerRow & { input: Uint8Array<ArrayBuffer> };

const COLUMNS = 'a.id, a.entity_id, a.project, a.status, a.answer, a.created_at';

/** Answers of `/v1/responses` by id. */
export class KeptAnswerTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /**
   * Inserts an answer; replaces an ended one with the same id.
   * @param lease of a live answer
   * @returns the row and its bytes; null if a live answer has this id
   */
  async insert(
    input: PackedAnswer,
    times: { readonly createdAt: number; readonly expiresAt: number },
    lease: { readonly owner: string; readonly expiresAt: number } | null,
  ): Promise<{ readonly row: number; readonly sizeBytes: number } | null> {
    const { entityId, project, id } = input;
    const sizeBytes = ROW_BYTES + input.answer.byteLength + input.input.byteLength;
    await this.#sql.run(
      `delete from kept_answers where ${IN_SCOPE} and id = ? and not (${IS_LIVE})`,
      entityId,
      project,
      id,
    );
    const added = await this.#sql.get<{ position: number }>(
      `insert into kept_answers (id, entity_id, project, key_id, model_id, status, owner, lease_expires_at, created_at, expires_at,
         size_bytes, answer, input)
       values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (entity_id, project, id) do nothing
       returning position`,
      id,
      entityId,
      project,
      input.keyId,
      input.modelId,
      input.status,
      lease?.owner ?? null,
      lease?.expiresAt ?? null,
      times.createdAt,
      times.expiresAt,
      sizeBytes,
      input.answer,
      input.input,
    );
    if (added === undefined) return null;
    await this.#insertItems(added.position, input.itemIds);
    return { row: added.position, sizeBytes };
  }

  async #insertItems(row: number, itemIds: readonly string[]): Promise<void> {
    for (const some of partsOf(itemIds, INSERTED_AT_ONCE))
      await this.#sql.run(
        `insert into kept_items (answer_position, id) values ${rowsOf(some.length, '(?, ?)')} on conflict do nothing`,
        ...some.flatMap((itemId) => [row, itemId]),
      );
  }

  async find({ entityId, project }: KeptScope, id: string): Promise<KeptAnswerRow | undefined> {
    return await this.#sql.get<KeptAnswerRow>(
      `select ${COLUMNS} from kept_answers a where ${IN_SCOPE} and a.id = ?`,
      entityId,
      project,
      id,
    );
  }

  async findRow({ entityId, project }: KeptScope, id: string): Promise<number | undefined> {
    const found = await this.#sql.get<{ position: number }>(
      `select position from kept_answers where ${IN_SCOPE} and id = ?`,
      entityId,
      project,
      id,
    );
    return found?.position;
  }

  /** Finds the starts of the texts, which state their lengths. */
  async findHeads({ entityId, project }: KeptScope, id: string): Promise<Heads | undefined> {
    return await this.#sql.get<Heads>(
      `select substr(answer, 1, ${HEAD_BYTES}) as answer, substr(input, 1, ${HEAD_BYTES}) as input
       from kept_answers where ${IN_SCOPE} and id = ?`,
      entityId,
      project,
      id,
    );
  }

  async findWhole({ entityId, project }: KeptScope, id: string): Promise<WholeAnswerRow | undefined> {
    return await this.#sql.get<WholeAnswerRow>(
      `select ${COLUMNS}, a.input from kept_answers a where ${IN_SCOPE} and a.id = ?`,
      entityId,
      project,
      id,
    );
  }

  /** Finds the newest answer that has this output item. @returns its row and the start of its text */
  async findItem(
    { entityId, project }: KeptScope,
    itemId: string,
  ): Promise<{ readonly position: number; readonly head: Uint8Array<ArrayBuffer> } | undefined> {
    return await this.#sql.get<{ position: number; head: Uint8Array<ArrayBuffer> }>(
      `select a.position, substr(a.answer, 1, ${HEAD_BYTES}) as head from kept_items i join kept_answers a on a.position = i.answer_position
       where i.id = ? and ${IN_SCOPE} order by a.position desc limit 1`,
      itemId,
      entityId,
      project,
    );
  }

  async getText(row: number): Promise<Pick<KeptAnswerRow, 'id' | 'answer'> | undefined> {
    return await this.#sql.get<Pick<KeptAnswerRow, 'id' | 'answer'>>(
      'select id, answer from kept_answers where position = ?',
      row,
    );
  }

  async status(key: AnswerKey, now: number): Promise<AnswerStatus | null> {
    const { entityId, project, id } = key;
    const row = await this.#sql.get<{ position: number; status: KeptAnswerStatus; ended_at: number | null }>(
      `select position, status, case when ${IS_LIVE} and not ${holds('lease_expires_at')} then lease_expires_at end as ended_at
       from kept_answers where ${IN_SCOPE} and id = ?`,
      ...leaseBounds(now),
      entityId,
      project,
      id,
    );
    if (row === undefined) return null;
    const { position, status, ended_at: endedAt } = row;
    const lost = endedAt === null ? null : { entityId, project, id, row: position, leaseEndedAt: endedAt };
    return { status, lost };
  }

  /**
   * Writes the state of a live answer.
   * @param by its owner, or the end of its lease if not renewed; null for any owner
   * @returns its row; null if it was not live
   */
  async setState(
    key: AnswerKey | { readonly row: number },
    { status, answer, itemIds }: Pick<PackedAnswer, 'status' | 'answer' | 'itemIds'>,
    by: { readonly owner: string } | { readonly leaseEndedAt: number } | null,
  ): Promise<number | null> {
    const isLive = status === 'queued' || status === 'in_progress';
    const [condition, parameters]: [string, readonly (string | number)[]] =
      by === null
        ? ['', []]
        : 'owner' in by
          ? ['and owner = ?', [by.owner]]
          : ['and lease_expires_at = ?', [by.leaseEndedAt]];
    const [where, names]: [string, readonly (string | number)[]] =
      'row' in key ? ['position = ?', [key.row]] : [`${IN_SCOPE} and id = ?`, [key.entityId, key.project, key.id]];
    const changed = await this.#sql.get<{ position: number }>(
      `update kept_answers set status = ?, answer = ?, size_bytes = size_bytes - length(answer) + ?${isLive ? '' : ', owner = null, lease_expires_at = null'}
       where ${where} and ${IS_LIVE} ${condition} returning position`,
      status,
      answer,
      answer.byteLength,
      ...names,
      ...parameters,
    );
    if (changed === undefined) return null;
    await this.#insertItems(changed.position, itemIds);
    return changed.position;
  }

  /**
   * Writes a batch, replacing one with the same first number. @returns false if another owner computes the
   * answer: nothing was written
   */
  async addEvents(row: number, firstNumber: number, events: Uint8Array, owner: string): Promise<boolean> {
    const before = await this.#sql.get<{ size: number }>(
      'select length(events) as size from kept_answer_events where answer_position = ? and first_number = ?',
      row,
      firstNumber,
    );
    const numChanged = await this.#sql.run(
      `insert into kept_answer_events (answer_position, first_number, events)
       select position, ?, ? from kept_answers where position = ? and ${IS_LIVE} and owner = ?
       on conflict (answer_position, first_number) do update set events = excluded.events`,
      firstNumber,
      events,
      row,
      owner,
    );
    if (numChanged === 0) return false;
    await this.#sql.run(
      'update kept_answers set size_bytes = size_bytes + ? where position = ?',
      events.byteLength - (before?.size ?? 0),
      row,
    );
    return true;
  }

  async readEvents(
    { entityId, project, id }: AnswerKey,
    from: number,
    limit: number,
  ): Promise<{ first_number: number; events: Uint8Array<ArrayBuffer> }[]> {
    return await this.#sql.all(
      `select e.first_number, e.events from kept_answers a join kept_answer_events e on e.answer_position = a.position
       where ${IN_SCOPE} and a.id = ? and e.first_number >= coalesce((
         select max(b.first_number) from kept_answer_events b where b.answer_position = a.position and b.first_number <= ?), 0)
       order by e.first_number limit ?`,
      entityId,
      project,
      id,
      from,
      limit,
    );
  }

  async listOwn(owner: string): Promise<LiveAnswer[]> {
    const rows = await this.#sql.all<KeyRow>(
      `select position, entity_id, project, id from kept_answers where owner = ? and ${IS_LIVE}`,
      owner,
    );
    return rows.map(toKey);
  }

  async renew(rows: readonly number[], owner: string, expiresAt: number): Promise<void> {
    await rowsOfIds(
      this.#sql,
      rows,
      (marks) =>
        `update kept_answers set lease_expires_at = ? where position in (${marks}) and owner = ? and ${IS_LIVE}`,
      { before: [expiresAt], after: [owner] },
    );
  }

  async listLost(now: number, limit: number): Promise<LostAnswer[]> {
    const rows = await this.#sql.all<KeyRow & { lease_expires_at: number }>(
      `select position, entity_id, project, id, lease_expires_at from kept_answers
       where owner is not null and ${IS_LIVE} and not ${holds('lease_expires_at')} order by position limit ?`,
      ...leaseBounds(now),
      limit,
    );
    return rows.map((row) => ({ ...toKey(row), leaseEndedAt: row.lease_expires_at }));
  }

  /** Marks the live answers of a restarted process as lost: nothing computes them any more. */
  async releaseOf(owner: string): Promise<void> {
    await this.#sql.run(
      `update kept_answers set owner = '', lease_expires_at = 0 where owner = ? and ${IS_LIVE}`,
      owner,
    );
  }

  /** @returns true if there was one */
  async delete({ entityId, project }: KeptScope, id: string): Promise<boolean> {
    return (await this.#sql.run(`delete from kept_answers where ${IN_SCOPE} and id = ?`, entityId, project, id)) > 0;
  }

  async deleteOfModel(modelId: string): Promise<void> {
    await this.#sql.run('delete from kept_answers where model_id = ?', modelId);
  }

  /** Removes up to `limit` expired answers that have ended. @returns their number */
  async expire(now: number, limit: number): Promise<number> {
    return await this.#sql.run(
      `delete from kept_answers where position in (
         select position from kept_answers where expires_at <= ? and not (${IS_LIVE}) order by expires_at limit ?)`,
      now,
      limit,
    );
  }

  /**
   * Bytes of the entity's answers, and of those that {@link prune} keeps. Ended answers have no owner, so one
   * index covers the query.
   */
  async sumBytes(entityId: string, except: number): Promise<{ total: number; fixed: number }> {
    const sums = await this.#sql.get<{ total: number; fixed: number }>(
      `select cast(coalesce(sum(size_bytes), 0) as bigint) as total,
         cast(coalesce(sum(case when position = ? or owner is not null then size_bytes end), 0) as bigint) as fixed
       from kept_answers where entity_id = ?`,
      except,
      entityId,
    );
    return sums ?? { total: 0, fixed: 0 };
  }

  async deleteRow(row: number): Promise<void> {
    await this.#sql.run('delete from kept_answers where position = ?', row);
  }

  /**
   * Removes the entity's oldest ended answers, except one, until `numBytes` are freed. @returns the freed
   * bytes
   */
  async prune(entityId: string, except: number, numBytes: number): Promise<number> {
    let removed = 0;
    while (removed < numBytes) {
      const oldest = await this.#sql.all<{ position: number; size_bytes: number }>(
        `select position, size_bytes from kept_answers where entity_id = ? and position <> ? and owner is null order by position limit ?`,
        entityId,
        except,
        PRUNED_AT_ONCE,
      );
      const positions: number[] = [];
      for (const { position, size_bytes: size } of oldest) {
        if (removed >= numBytes) break;
        positions.push(position);
        removed += size;
      }
      if (positions.length === 0) break;
      await rowsOfIds(this.#sql, positions, (marks) => `delete from kept_answers where position in (${marks})`);
    }
    return removed;
  }

  async count(): Promise<{ numRows: number; sizeBytes: number }> {
    const row = await this.#sql.get<{ num: number; total: number }>(
      'select count(*) as num, cast(coalesce(sum(size_bytes), 0) as bigint) as total from kept_answers',
    );
    return { numRows: row?.num ?? 0, sizeBytes: row?.total ?? 0 };
  }
}

type KeyRow = { position: number; entity_id: string; project: string; id: string };

function toKey({ position: row, entity_id: entityId, project, id }: KeyRow): LiveAnswer {
  return { entityId, project, id, row };
}
