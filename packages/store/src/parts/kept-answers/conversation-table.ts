import type { Conversation, ConversationKey, NewConversation } from './conversations.ts';
import type { KeptScope } from './kept-scope.ts';
import type { SqlRow, Statements } from '../../contract/sql.ts';
import { partsOf, rowsOf, rowsOfIds } from '../rows-of.ts';

/** Bytes of a row in addition to its texts: ids, index entries, and unused space in pages. */
const ROW_BYTES = 600;
const ITEM_BYTES = 200;
/** Conversations per step of making room, and items removed by age per transaction. */
const PRUNED_AT_ONCE = 256;
const ITEMS_AT_ONCE = 5000;
/** Items per statement. */
const INSERTED_AT_ONCE = 100;

const IN_SCOPE = 'entity_id = ? and project = ?';

export interface PackedItem {
  readonly id: string;
  readonly item: Uint8Array;
  readonly textBytes: number;
}

export type ConversationRow = {
  position: number;
  id: string;
  entity_id: string;
  project: string;
  metadata: string;
  created_at: number;
  used_at: number;
  size_bytes: number;
  text_bytes: number;
  num_items: number;
};

export type ItemPlace = { conversation_position: number; place: number; text_bytes: number };

export type ItemRow = { id: string; item: Uint8Array<ArrayBuffer> };

const COLUMNS = 'position, id, entity_id, project, metadata, created_at, used_at, size_bytes, text_bytes, num_items';

/** Conversations by id, and their items in order. */
export class ConversationTable {
  readonly #sql: Statements;
  constructor(sql: Statements) {
    this.#sql = sql;
  }

  /** @returns its row without items; undefined if the id is taken */
  async insert(
    { entityId, project, id, metadata }: NewConversation,
    now: number,
    expiresAt: number,
  ): Promise<ConversationRow | undefined> {
    return await this.#sql.get<ConversationRow>(
      `insert into conversations (id, entity_id, project, metadata, created_at, used_at, expires_at, size_bytes, text_bytes, num_items, next_place)
       values (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0) on conflict (entity_id, project, id) do nothing returning ${COLUMNS}`,
      id,
      entityId,
      project,
      metadata,
      now,
      now,
      expiresAt,
      ROW_BYTES + Buffer.byteLength(metadata),
    );
  }

  async find({ entityId, project, id }: ConversationKey): Promise<ConversationRow | undefined> {
    return await this.#sql.get<ConversationRow>(
      `select ${COLUMNS} from conversations where ${IN_SCOPE} and id = ?`,
      entityId,
      project,
      id,
    );
  }

  async setMetadata({ position, metadata: previous }: ConversationRow, metadata: string): Promise<void> {
    await this.#sql.run(
      'update conversations set metadata = ?, size_bytes = size_bytes + ? where position = ?',
      metadata,
      Buffer.byteLength(metadata) - Buffer.byteLength(previous),
      position,
    );
  }

  /** Under a clock that is set back, an earlier use stays: it never shortens the life of a conversation. */
  async use(row: number, now: number, expiresAt: number): Promise<void> {
    await this.#sql.run(
      `update conversations set used_at = case when used_at > ? then used_at else ? end,
         expires_at = case when expires_at > ? then expires_at else ? end where position = ?`,
      now,
      now,
      expiresAt,
      expiresAt,
      row,
    );
  }

  /** Inserts items after the last one. Their ids are free. */
  async insertItems({ position }: ConversationRow, items: readonly PackedItem[]): Promise<void> {
    const counted = await this.#sql.get<{ next_place: number }>(
      `update conversations set next_place = next_place + ?, num_items = num_items + ?, text_bytes = text_bytes + ?, size_bytes = size_bytes + ?
       where position = ? returning next_place`,
      items.length,
      items.length,
      items.reduce((sum, { textBytes }) => sum + textBytes, 0),
      sizeOfItems(items),
      position,
    );
    const first = (counted?.next_place ?? 0) - items.length;
    const rows = items.map(({ id, item, textBytes }, index) => [position, first + index, id, item, textBytes]);
    for (const some of partsOf(rows, INSERTED_AT_ONCE))
      await this.#sql.run(
        `insert into conversation_items (conversation_position, place, id, item, text_bytes)
         values ${rowsOf(some.length, '(?, ?, ?, ?, ?)')}`,
        ...some.flat(),
      );
  }

  async readAll(row: number): Promise<ItemRow[]> {
    return await this.#sql.all<ItemRow>(
      'select id, item from conversation_items where conversation_position = ? order by place',
      row,
    );
  }

  /** Returns those of the ids that items of the conversation have. */
  async takenIds(row: number, ids: readonly string[]): Promise<Set<string>> {
    const found = await rowsOfIds<{ id: string }>(
      this.#sql,
      ids,
      (marks) => `select id from conversation_items where conversation_position = ? and id in (${marks})`,
      { before: [row] },
    );
    return new Set(found.map(({ id }) => id));
  }

  async placeOf(row: number, itemId: string): Promise<number | null> {
    const found = await this.#sql.get<{ place: number }>(
      'select place from conversation_items where id = ? and conversation_position = ?',
      itemId,
      row,
    );
    return found?.place ?? null;
  }

  /** @param after place of the item before the first one; null: from the start or the end */
  async listItems(row: number, after: number | null, isAscending: boolean, limit: number): Promise<ItemRow[]> {
    return await this.#page<ItemRow>('id, item', row, { after, isAscending, limit });
  }

  /** Bytes of the texts of the same items. */
  async measureItems(row: number, after: number | null, isAscending: boolean, limit: number): Promise<number> {
    const items = await this.#page<{ text_bytes: number }>('text_bytes', row, { after, isAscending, limit });
    return items.reduce((sum, { text_bytes: numBytes }) => sum + numBytes, 0);
  }

  async #page<Row extends SqlRow>(
    columns: string,
    row: number,
    { after, isAscending, limit }: { after: number | null; isAscending: boolean; limit: number },
  ): Promise<Row[]> {
    const [comparison, order] = isAscending ? ['>', 'asc'] : ['<', 'desc'];
    const [condition, parameters] = after === null ? ['', []] : [`and place ${comparison} ?`, [after]];
    return await this.#sql.all<Row>(
      `select ${columns} from conversation_items where conversation_position = ? ${condition} order by place ${order} limit ?`,
      row,
      ...parameters,
      limit,
    );
  }

  /** Finds the place of an item, and the bytes of its text. */
  async locateItem(row: number, itemId: string): Promise<ItemPlace | undefined> {
    return await this.#sql.get<ItemPlace>(
      'select conversation_position, place, text_bytes from conversation_items where id = ? and conversation_position = ?',
      itemId,
      row,
    );
  }

  /** The same for the newest item with this id in any conversation of the scope. */
  async locateItemOfAny({ entityId, project }: KeptScope, itemId: string): Promise<ItemPlace | undefined> {
    return await this.#sql.get<ItemPlace>(
      `select i.conversation_position, i.place, i.text_bytes
       from conversation_items i join conversations c on c.position = i.conversation_position
       where i.id = ? and c.entity_id = ? and c.project = ? order by c.used_at desc, c.position desc limit 1`,
      itemId,
      entityId,
      project,
    );
  }

  async getItem({ conversation_position: row, place }: ItemPlace): Promise<ItemRow | undefined> {
    return await this.#sql.get<ItemRow>(
      'select id, item from conversation_items where conversation_position = ? and place = ?',
      row,
      place,
    );
  }

  async deleteItem(row: number, itemId: string): Promise<boolean> {
    const removed = await this.#sql.get<{ size: number; text_bytes: number }>(
      `delete from conversation_items where id = ? and conversation_position = ? returning length(item) as size, text_bytes`,
      itemId,
      row,
    );
    if (removed === undefined) return false;
    await this.#sql.run(
      'update conversations set num_items = num_items - 1, text_bytes = text_bytes - ?, size_bytes = size_bytes - ? where position = ?',
      removed.text_bytes,
      removed.size + ITEM_BYTES,
      row,
    );
    return true;
  }

  /** @returns true if there was one */
  async delete({ entityId, project, id }: ConversationKey): Promise<boolean> {
    return (await this.#sql.run(`delete from conversations where ${IN_SCOPE} and id = ?`, entityId, project, id)) > 0;
  }

  async deleteRow(row: number): Promise<void> {
    await this.#sql.run('delete from conversations where position = ?', row);
  }

  /** Removes some of the expired conversations. @returns true if there are more */
  async expire(now: number): Promise<boolean> {
    const ended = await this.#sql.all<{ position: number; num_items: number }>(
      'select position, num_items from conversations where expires_at <= ? order by expires_at limit ?',
      now,
      PRUNED_AT_ONCE,
    );
    const removed: number[] = [];
    let numItems = 0;
    for (const { position, num_items: num } of ended) {
      removed.push(position);
      numItems += num;
      if (numItems >= ITEMS_AT_ONCE) break;
    }
    await this.#deleteRows(removed);
    return removed.length < ended.length || ended.length === PRUNED_AT_ONCE;
  }

  async sumBytes(entityId: string): Promise<number> {
    const sum = await this.#sql.get<{ total: number }>(
      'select cast(coalesce(sum(size_bytes), 0) as bigint) as total from conversations where entity_id = ?',
      entityId,
    );
    return sum?.total ?? 0;
  }

  /**
   * Removes the entity's least recently used conversations, except one, until `numBytes` are freed. @returns
   * the freed bytes
   */
  async prune(entityId: string, except: number, numBytes: number): Promise<number> {
    let removed = 0;
    while (removed < numBytes) {
      const oldest = await this.#sql.all<{ position: number; size_bytes: number }>(
        'select position, size_bytes from conversations where entity_id = ? and position <> ? order by used_at, position limit ?',
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
      await this.#deleteRows(positions);
    }
    return removed;
  }

  async #deleteRows(positions: readonly number[]): Promise<void> {
    await rowsOfIds(this.#sql, positions, (marks) => `delete from conversations where position in (${marks})`);
  }

  async count(): Promise<{ numRows: number; sizeBytes: number }> {
    const row = await this.#sql.get<{ num: number; total: number }>(
      'select count(*) as num, cast(coalesce(sum(size_bytes), 0) as bigint) as total from conversations',
    );
    return { numRows: row?.num ?? 0, sizeBytes: row?.total ?? 0 };
  }
}

export function toConversation(row: ConversationRow): Conversation {
  const { id, entity_id: entityId, project, metadata, created_at: createdAt } = row;
  return { id, entityId, project, metadata, createdAt };
}

export function sizeOfItems(items: readonly PackedItem[]): number {
  return items.reduce((sum, { item }) => sum + ITEM_BYTES + item.byteLength, 0);
}
