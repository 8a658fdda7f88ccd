import { setImmediate as nextTurn } from 'node:timers/promises';

import type { ConversationTurn } from './conversations.ts';
import {
  type AnswerEvents,
  type AnswerKey,
  type AnswerState,
  type AnswerStatus,
  type AnswerText,
  DEFAULT_KEPT_ANSWER_LIMITS,
  ENDED_ANSWER_STATUSES,
  type EndedAnswerStatus,
  type KeepResult,
  type KeptAnswer,
  type KeptAnswerLimits,
  type KeptAnswers,
  type KeptAnswerStatus,
  type LiveAnswer,
  type LostAnswer,
  type NewKeptAnswer,
  type NewLiveAnswer,
  type WholeAnswer,
} from './kept-answers.ts';
import type { CompletesWith, IdempotentAnswer } from '../idempotency/idempotency.ts';
import type { BeforeUnpacking, KeptScope } from './kept-scope.ts';
import type { Queries, Sql, TransactionOptions } from '../../contract/sql.ts';
import type { KeptAnswerRow, PackedAnswer } from './kept-answer-table.ts';
import { packJson, packLines, unpackedBytes, unpackJson, unpackLines } from './packed-json.ts';
import { openTables, type Tables } from '../tables.ts';
import type { ConversationStore, PackedTurn } from './conversation-store.ts';
import { EntityBytes, prunedTo } from './entity-bytes.ts';
import type { RequestsInProgress } from '../idempotency/requests-in-progress.ts';
import { isStorableId } from './storable-id.ts';

/** An answer is worth more than its copy, so it does not wait for the disk. */
const NOT_DURABLE: TransactionOptions = { isDurable: false };
/** Options for the id and the end of a background answer: a client that has read them does not ask again. */
const DURABLE: TransactionOptions = { isDurable: true };
/** Answers removed per transaction, a few milliseconds of work. */
const EXPIRED_AT_ONCE = 500;

export interface KeptAnswerStoreOptions {
  readonly clock: () => number;
  /** Name of this process among those that share the database. */
  readonly owner: string;
  readonly limits?: Partial<KeptAnswerLimits> | undefined;
  /** Receives the turns that come with answers. */
  readonly conversations: ConversationStore;
  /** Keeps the answers to requests that come with writes. */
  readonly requests: Pick<RequestsInProgress, 'completeIn'>;
}

/** A new answer with everything that is written with it. */
interface Insertion {
  readonly answer: NewKeptAnswer<KeptAnswerStatus>;
  /** Null for an ended answer. */
  readonly leaseMs: number | null;
  readonly events?: readonly string[];
  readonly turn?: PackedTurn | undefined;
  readonly completes: CompletesWith<KeepResult> | undefined;
}

/** Row of the answer, or the reason why it is not kept. */
type Inserted = number | Exclude<KeepResult, 'kept'>;

/** Kept answers in an SQL database. Each writing call is one transaction; texts are compressed before it. */
export class KeptAnswerStore implements KeptAnswers {
  readonly #sql: Sql;
  readonly #clock: () => number;
  readonly #owner: string;
  readonly #limits: KeptAnswerLimits;
  readonly #conversations: ConversationStore;
  readonly #requests: KeptAnswerStoreOptions['requests'];
  readonly #bytes = new EntityBytes();

  constructor(sql: Sql, { clock, owner, limits = {}, conversations, requests }: KeptAnswerStoreOptions) {
    this.#sql = sql;
    this.#clock = clock;
    this.#owner = owner;
    this.#limits = { ...DEFAULT_KEPT_ANSWER_LIMITS, ...limits };
    this.#conversations = conversations;
    this.#requests = requests;
  }

  async keep(
    answer: NewKeptAnswer,
    turn?: ConversationTurn,
    completes?: CompletesWith<KeepResult>,
  ): Promise<KeepResult> {
    const packed = turn && (await this.#conversations.packTurn(turn));
    const result = await this.#insert({ answer, leaseMs: null, turn: packed, completes });
    return typeof result === 'string' ? result : 'kept';
  }

  async begin(
    { leaseMs, events = [], ...answer }: NewLiveAnswer,
    completes?: IdempotentAnswer,
  ): Promise<LiveAnswer | Exclude<KeepResult, 'kept'>> {
    const { entityId, project, id } = answer;
    const ifKept = (result: KeepResult) => (result === 'kept' ? completes : undefined);
    const row = await this.#insert({ answer, leaseMs, events, completes: completes && ifKept });
    return typeof row === 'string' ? row : { entityId, project, id, row };
  }

  async #insert({ answer, leaseMs, events = [], turn, completes }: Insertion): Promise<Inserted> {
    const packed = { ...answer, answer: await packJson(answer.answer), input: await packJson(answer.input) };
    const lines = events.length === 0 ? null : await packLines(events);
    return await this.#write(
      async (tables) => {
        if (turn !== undefined) {
          // Everything of the earlier call was one transaction.
          if (await this.#conversations.hasTurn(tables, turn))
            return (await tables.keptAnswers.findRow(answer, answer.id)) ?? 'full';
          await this.#conversations.appendPacked(tables, turn);
        }
        const result = await this.#insertPacked(tables, packed, leaseMs, lines);
        const stored = completes?.(typeof result === 'string' ? result : 'kept');
        if (stored !== undefined) await this.#requests.completeIn(tables, stored);
        return result;
      },
      leaseMs === null && turn === undefined && completes === undefined ? NOT_DURABLE : DURABLE,
    );
  }

  async #insertPacked(
    tables: Tables,
    answer: PackedAnswer,
    leaseMs: number | null,
    lines: Uint8Array | null,
  ): Promise<Inserted> {
    const { modelId, entityId } = answer;
    if (modelId !== null && (await tables.models.get(modelId)) === null) return 'model_deleted';
    const now = this.#clock();
    const times = { createdAt: now, expiresAt: now + this.#limits.lifetimeMs };
    const lease = leaseMs === null ? null : { owner: this.#owner, expiresAt: now + leaseMs };
    const added = await tables.keptAnswers.insert(answer, times, lease);
    if (added === null) return 'busy';
    if (lines !== null) await tables.keptAnswers.addEvents(added.row, 0, lines, this.#owner);
    if (await this.#freeSpace(tables, { entityId, row: added.row }, added.sizeBytes)) return added.row;
    await tables.keptAnswers.deleteRow(added.row);
    return 'full';
  }

  async find(scope: KeptScope, id: string, before?: BeforeUnpacking): Promise<KeptAnswer | null> {
    if (!isStorableId(id)) return null;
    const { keptAnswers } = openTables(this.#sql);
    const heads = before && (await keptAnswers.findHeads(scope, id));
    if (heads !== undefined) await before?.(unpackedBytes(heads.answer));
    const row = await keptAnswers.find(scope, id);
    return row === undefined ? null : await toKeptAnswer(row);
  }

  async findWhole(scope: KeptScope, id: string, before?: BeforeUnpacking): Promise<WholeAnswer | null> {
    if (!isStorableId(id)) return null;
    const { keptAnswers } = openTables(this.#sql);
    const heads = before && (await keptAnswers.findHeads(scope, id));
    if (heads !== undefined) await before?.(unpackedBytes(heads.answer) + unpackedBytes(heads.input));
    const row = await keptAnswers.findWhole(scope, id);
    return row === undefined ? null : { ...(await toKeptAnswer(row)), input: await unpackJson(row.input) };
  }

  async findItem(scope: KeptScope, itemId: string, before?: BeforeUnpacking): Promise<AnswerText | null> {
    if (!isStorableId(itemId)) return null;
    const { keptAnswers } = openTables(this.#sql);
    const found = await keptAnswers.findItem(scope, itemId);
    if (found === undefined) return null;
    await before?.(unpackedBytes(found.head));
    const row = await keptAnswers.getText(found.position);
    return row === undefined ? null : { id: row.id, answer: await unpackJson(row.answer) };
  }

  async delete(scope: KeptScope, id: string): Promise<boolean> {
    if (!isStorableId(id)) return false;
    return await this.#sql.transaction((queries) => openTables(queries).keptAnswers.delete(scope, id));
  }

  async status(key: AnswerKey): Promise<AnswerStatus | null> {
    return isStorableId(key.id) ? await openTables(this.#sql).keptAnswers.status(key, this.#clock()) : null;
  }

  async update(
    live: LiveAnswer,
    { state, events, turn }: { state?: AnswerState; events?: AnswerEvents; turn?: ConversationTurn },
  ): Promise<boolean> {
    const added = turn && (await this.#conversations.packTurn(turn));
    const packed = state === undefined ? null : { ...state, answer: await packJson(state.answer) };
    const lines = events === undefined ? null : await packLines(events.events);
    const isEnd = state !== undefined && ENDED_ANSWER_STATUSES.some((status) => status === state.status);
    return await this.#write(
      async (tables) => {
        const { keptAnswers } = tables;
        const owner = this.#owner;
        const firstNumber = events?.firstNumber ?? 0;
        if (lines !== null && !(await keptAnswers.addEvents(live.row, firstNumber, lines, owner))) return false;
        if (packed !== null && (await keptAnswers.setState(live, packed, { owner })) === null) return false;
        if (added !== undefined) await this.#conversations.appendPacked(tables, added);
        await this.#freeSpace(tables, live, (lines?.byteLength ?? 0) + (packed?.answer.byteLength ?? 0));
        return true;
      },
      isEnd ? DURABLE : NOT_DURABLE,
    );
  }

  async end(key: AnswerKey, state: AnswerState<EndedAnswerStatus>, lost?: LostAnswer): Promise<boolean> {
    const packed = { ...state, answer: await packJson(state.answer) };
    return await this.#write(async (tables) => {
      const row = await tables.keptAnswers.setState(lost ?? key, packed, lost ?? null);
      if (row === null) return false;
      await this.#freeSpace(tables, { entityId: key.entityId, row }, packed.answer.byteLength);
      return true;
    }, DURABLE);
  }

  async listOwn(): Promise<LiveAnswer[]> {
    return await openTables(this.#sql).keptAnswers.listOwn(this.#owner);
  }

  async renew(answers: readonly LiveAnswer[], leaseMs: number): Promise<void> {
    const rows = answers.map(({ row }) => row);
    await this.#write(({ keptAnswers }) => keptAnswers.renew(rows, this.#owner, this.#clock() + leaseMs));
  }

  async listLost(limit: number): Promise<LostAnswer[]> {
    return await openTables(this.#sql).keptAnswers.listLost(this.#clock(), limit);
  }

  async readEvents(key: AnswerKey, from: number, limit: number): Promise<AnswerEvents[]> {
    const rows = await openTables(this.#sql).keptAnswers.readEvents(key, from, limit);
    const batches: AnswerEvents[] = [];
    for (const row of rows) batches.push({ firstNumber: row.first_number, events: await unpackLines(row.events) });
    return batches;
  }

  async count(): Promise<{ numAnswers: number; sizeBytes: number }> {
    const { numRows, sizeBytes } = await openTables(this.#sql).keptAnswers.count();
    return { numAnswers: numRows, sizeBytes };
  }

  /** Removes expired answers, in several transactions. */
  async purge(now: number): Promise<void> {
    let numRemoved = EXPIRED_AT_ONCE;
    while (numRemoved === EXPIRED_AT_ONCE) {
      numRemoved = await this.#write(({ keptAnswers }) => keptAnswers.expire(now, EXPIRED_AT_ONCE));
      await nextTurn();
    }
    this.#bytes.forget();
  }

  /** Runs within a transaction. */
  async deleteOfModel({ keptAnswers }: Tables, modelId: string): Promise<void> {
    this.#bytes.forget();
    await keptAnswers.deleteOfModel(modelId);
  }

  /**
   * Removes answers older than a row that has grown. @returns false if the row has no room even then: nothing
   * was removed
   */
  async #freeSpace(
    { keptAnswers }: Tables,
    { entityId, row }: Pick<LiveAnswer, 'entityId' | 'row'>,
    numAdded: number,
  ): Promise<boolean> {
    const { maxBytes } = this.#limits;
    if (!this.#bytes.mayExceed(entityId, numAdded, maxBytes)) return true;
    const { total, fixed } = await keptAnswers.sumBytes(entityId, row);
    this.#bytes.counted(entityId, total);
    if (total <= maxBytes) return true;
    if (fixed > maxBytes) return false;
    this.#bytes.counted(entityId, total - (await keptAnswers.prune(entityId, row, total - prunedTo(maxBytes))));
    return true;
  }

  #write<Result>(body: (tables: Tables) => Promise<Result>, options = NOT_DURABLE): Promise<Result> {
    return this.#sql.transaction((queries: Queries) => body(openTables(queries)), options);
  }
}

async function toKeptAnswer(row: KeptAnswerRow): Promise<KeptAnswer> {
  const { id, entity_id: entityId, project, status, created_at: createdAt } = row;
  return { id, entityId, project, status, answer: await unpackJson(row.answer), createdAt };
}
