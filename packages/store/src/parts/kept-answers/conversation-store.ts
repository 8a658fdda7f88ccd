import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';

import {
  type AddResult,
  type Conversation,
  type ConversationItem,
  type ConversationKey,
  type ConversationLimits,
  type ConversationPage,
  type ConversationPageQuery,
  type Conversations,
  type ConversationTurn,
  DEFAULT_CONVERSATION_LIMITS,
  type NewConversation,
  type ReadOptions,
} from './conversations.ts';
import { StoreError } from '../../contract/errors.ts';
import type { CompletesWith, IdempotentAnswer } from '../idempotency/idempotency.ts';
import type { BeforeUnpacking, KeptScope } from './kept-scope.ts';
import type { Queries, Sql, TransactionOptions } from '../../contract/sql.ts';
import {
  type ConversationRow,
  type ItemPlace,
  type ItemRow,
  type PackedItem,
  sizeOfItems,
  toConversation,
} from './conversation-table.ts';
import { packJson, unpackJson } from './packed-json.ts';
import { openTables, type Tables } from '../tables.ts';
import { EntityBytes, prunedTo } from './entity-bytes.ts';
import type { RequestsInProgress } from '../idempotency/requests-in-progress.ts';
import { isStorableId } from './storable-id.ts';

/** Options for uses and removals, which can be repeated without loss. */
const NOT_DURABLE: TransactionOptions = { isDurable: false };
/** Items to compress or unpack in the event loop before other work gets a turn. */
const ITEMS_AT_ONCE = 256;
/** Minimum time between two writes of a use, as a share of the lifetime. */
const SHARE_OF_USE = 0.1;

export interface PackedTurn {
  readonly conversation: ConversationKey;
  readonly items: readonly PackedItem[];
  readonly ownItemId: string | undefined;
}

export interface ConversationStoreOptions {
  readonly clock: () => number;
  /** Keeps the answers to requests that come with writes. */
  readonly requests: Pick<RequestsInProgress, 'completeIn'>;
  readonly limits?: Partial<ConversationLimits> | undefined;
}

/** Conversations in an SQL database. Each writing call is one transaction; texts are compressed before it. */
export class ConversationStore implements Conversations {
  readonly limits: ConversationLimits;
  readonly #sql: Sql;
  readonly #clock: () => number;
  readonly #requests: ConversationStoreOptions['requests'];
  readonly #bytes = new EntityBytes();

  constructor(sql: Sql, { clock, requests, limits = {} }: ConversationStoreOptions) {
    this.#sql = sql;
    this.#clock = clock;
    this.#requests = requests;
    this.limits = { ...DEFAULT_CONVERSATION_LIMITS, ...limits };
  }

  async create(
    conversation: NewConversation,
    completes?: CompletesWith<Conversation>,
  ): Promise<Conversation | Exclude<AddResult, 'added' | 'unknown'>> {
    const packed = await packItems(conversation.items);
    return await this.#write(async (tables) => {
      const now = this.#clock();
      const row = await tables.conversations.insert(conversation, now, now + this.limits.lifetimeMs);
      if (row === undefined) return 'taken';
      const result = await this.#add(tables, row, packed, row.size_bytes);
      if (result !== 'added') {
        await tables.conversations.deleteRow(row.position);
        return result;
      }
      const created = toConversation(row);
      await this.#complete(tables, completes?.(created));
      return created;
    });
  }

  async find(key: ConversationKey): Promise<Conversation | null> {
    const row = await this.#row(key);
    return row === undefined ? null : toConversation(row);
  }

  async setMetadata(key: ConversationKey, metadata: string): Promise<Conversation | null> {
    if (!isStorableId(key.id)) return null;
    return await this.#write(async ({ conversations }) => {
      const row = await conversations.find(key);
      if (row === undefined) return null;
      await conversations.setMetadata(row, metadata);
      await this.#use(conversations, row.position);
      return { ...toConversation(row), metadata };
    });
  }

  async delete(key: ConversationKey): Promise<boolean> {
    return isStorableId(key.id) && (await this.#write(({ conversations }) => conversations.delete(key)));
  }

  async add(
    key: ConversationKey,
    items: readonly ConversationItem[],
    completes?: IdempotentAnswer,
  ): Promise<AddResult> {
    if (!isStorableId(key.id)) return 'unknown';
    const packed = await packItems(items);
    return await this.#write(async (tables) => {
      const row = await tables.conversations.find(key);
      const result = row === undefined ? 'unknown' : await this.#add(tables, row, packed, 0);
      if (result === 'added') await this.#complete(tables, completes);
      return result;
    });
  }

  async append(turn: ConversationTurn, completes?: IdempotentAnswer): Promise<boolean> {
    const packed = await this.packTurn(turn);
    return await this.#write(async (tables) => {
      if (await this.hasTurn(tables, packed)) return true;
      const isAdded = await this.appendPacked(tables, packed);
      await this.#complete(tables, completes);
      return isAdded;
    });
  }

  async packTurn({ conversation, items, ownItemId }: ConversationTurn): Promise<PackedTurn> {
    return { conversation, items: await packItems(items), ownItemId };
  }

  /** Runs within a transaction. @returns true if an earlier call has committed this turn */
  async hasTurn({ conversations }: Tables, { conversation, ownItemId }: PackedTurn): Promise<boolean> {
    if (ownItemId === undefined) return false;
    const row = await conversations.find(conversation);
    return row !== undefined && (await conversations.placeOf(row.position, ownItemId)) !== null;
  }

  /** Runs within a transaction. */
  async appendPacked(tables: Tables, { conversation, items }: PackedTurn): Promise<boolean> {
    const { conversations } = tables;
    const row = await conversations.find(conversation);
    if (row === undefined) return false;
    const taken = await conversations.takenIds(row.position, idsOf(items));
    const named: PackedItem[] = [];
    for (const item of items) {
      named.push(taken.has(item.id) ? { ...item, id: `item_${randomUUID().replaceAll('-', '')}` } : item);
      taken.add(item.id);
    }
    await this.#insert(tables, row, named, 0);
    return true;
  }

  async readAll(key: ConversationKey, { before, isUse = true }: ReadOptions = {}): Promise<ConversationItem[] | null> {
    const row = await this.#row(key);
    if (row === undefined) return null;
    await before?.(row.text_bytes);
    if (isUse && this.#clock() - row.used_at > this.limits.lifetimeMs * SHARE_OF_USE) await this.#noteUse(row);
    const items = await openTables(this.#sql).conversations.readAll(row.position);
    if (items.length === 0 && (await this.#isGone(key, row))) return null;
    return await toItems(items);
  }

  async listItems(
    key: ConversationKey,
    query: ConversationPageQuery,
    before?: BeforeUnpacking,
  ): Promise<ConversationPage | null> {
    const { after, limit, isAscending } = query;
    const row = await this.#row(key);
    if (row === undefined) return null;
    const { conversations } = openTables(this.#sql);
    const place = after === undefined || !isStorableId(after) ? null : await conversations.placeOf(row.position, after);
    if (after !== undefined && place === null)
      throw new StoreError('store.cursor_unknown', '`after` is not the id of an item');
    if (before !== undefined)
      await before(await conversations.measureItems(row.position, place, isAscending, limit + 1));
    const found = await conversations.listItems(row.position, place, isAscending, limit + 1);
    if (found.length === 0 && (await this.#isGone(key, row))) return null;
    return { items: await toItems(found.slice(0, limit)), hasMore: found.length > limit };
  }

  async findItem(key: ConversationKey, itemId: string, before?: BeforeUnpacking): Promise<ConversationItem | null> {
    const row = isStorableId(itemId) ? await this.#row(key) : undefined;
    if (row === undefined) return null;
    return await this.#item(await openTables(this.#sql).conversations.locateItem(row.position, itemId), before);
  }

  async findItemOfAny(scope: KeptScope, itemId: string, before?: BeforeUnpacking): Promise<ConversationItem | null> {
    if (!isStorableId(itemId)) return null;
    return await this.#item(await openTables(this.#sql).conversations.locateItemOfAny(scope, itemId), before);
  }

  async #item(place: ItemPlace | undefined, before: BeforeUnpacking | undefined): Promise<ConversationItem | null> {
    if (place === undefined) return null;
    await before?.(place.text_bytes);
    const row = await openTables(this.#sql).conversations.getItem(place);
    return row === undefined ? null : { id: row.id, item: await unpackJson(row.item) };
  }

  async deleteItem(key: ConversationKey, itemId: string): Promise<Conversation | null> {
    if (!isStorableId(key.id) || !isStorableId(itemId)) return null;
    return await this.#write(async ({ conversations }) => {
      const row = await conversations.find(key);
      if (row === undefined || !(await conversations.deleteItem(row.position, itemId))) return null;
      await this.#use(conversations, row.position);
      return toConversation(row);
    });
  }

  async count(): Promise<{ numConversations: number; sizeBytes: number }> {
    const { numRows, sizeBytes } = await openTables(this.#sql).conversations.count();
    return { numConversations: numRows, sizeBytes };
  }

  /** Removes expired conversations, in several transactions. */
  async purge(now: number): Promise<void> {
    while (await this.#write(({ conversations }) => conversations.expire(now), NOT_DURABLE)) await nextTurn();
    this.#bytes.forget();
  }

  async #add(
    tables: Tables,
    row: ConversationRow,
    items: readonly PackedItem[],
    numAddedBefore: number,
  ): Promise<Exclude<AddResult, 'unknown'>> {
    const { maxItems, maxTextBytes, maxBytes } = this.limits;
    const textBytes = items.reduce((sum, item) => sum + item.textBytes, row.text_bytes);
    const sizeBytes = row.size_bytes + sizeOfItems(items);
    if (row.num_items + items.length > maxItems || textBytes > maxTextBytes || sizeBytes > maxBytes) return 'full';
    const ids = idsOf(items);
    if (new Set(ids).size < ids.length) return 'taken';
    if ((await tables.conversations.takenIds(row.position, ids)).size > 0) return 'taken';
    await this.#insert(tables, row, items, numAddedBefore);
    return 'added';
  }

  async #insert(
    tables: Tables,
    row: ConversationRow,
    items: readonly PackedItem[],
    numAddedBefore: number,
  ): Promise<void> {
    await tables.conversations.insertItems(row, items);
    await this.#use(tables.conversations, row.position);
    await this.#freeSpace(tables, row, numAddedBefore + sizeOfItems(items));
  }

  async #freeSpace({ conversations }: Tables, row: ConversationRow, numAdded: number): Promise<void> {
    const { maxBytes } = this.limits;
    const { entity_id: entityId, position } = row;
    if (!this.#bytes.mayExceed(entityId, numAdded, maxBytes)) return;
    const total = await conversations.sumBytes(entityId);
    const removed = total > maxBytes ? await conversations.prune(entityId, position, total - prunedTo(maxBytes)) : 0;
    this.#bytes.counted(entityId, total - removed);
  }

  async #use(conversations: Tables['conversations'], row: number): Promise<void> {
    const now = this.#clock();
    await conversations.use(row, now, now + this.limits.lifetimeMs);
  }

  /** A read needs no room on the disk, so it works without this write. */
  async #noteUse({ position }: ConversationRow): Promise<void> {
    try {
      await this.#write(({ conversations }) => this.#use(conversations, position), NOT_DURABLE);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
    }
  }

  /** True if the conversation was deleted after its row was read, so that no item was found. */
  async #isGone(key: ConversationKey, { num_items: numItems, position }: ConversationRow): Promise<boolean> {
    return numItems > 0 && (await this.#row(key))?.position !== position;
  }

  async #row(key: ConversationKey): Promise<ConversationRow | undefined> {
    return isStorableId(key.id) ? await openTables(this.#sql).conversations.find(key) : undefined;
  }

  async #complete(tables: Tables, answer: IdempotentAnswer | undefined): Promise<void> {
    if (answer !== undefined) await this.#requests.completeIn(tables, answer);
  }

  #write<Result>(body: (tables: Tables) => Promise<Result>, options?: TransactionOptions): Promise<Result> {
    return this.#sql.transaction((queries: Queries) => body(openTables(queries)), options);
  }
}

async function packItems(items: readonly ConversationItem[]): Promise<PackedItem[]> {
  const packed: PackedItem[] = [];
  for (const { id, item } of items) {
    packed.push({ id, item: await packJson(item), textBytes: Buffer.byteLength(item) });
    if (packed.length % ITEMS_AT_ONCE === 0) await nextTurn();
  }
  return packed;
}

function idsOf(items: readonly PackedItem[]): string[] {
  return items.map(({ id }) => id);
}

/** Unpacks one item after another, because each text in the thread pool takes extra memory. */
async function toItems(rows: readonly ItemRow[]): Promise<ConversationItem[]> {
  const items: ConversationItem[] = [];
  for (const { id, item } of rows) {
    items.push({ id, item: await unpackJson(item) });
    if (items.length % ITEMS_AT_ONCE === 0) await nextTurn();
  }
  return items;
}
