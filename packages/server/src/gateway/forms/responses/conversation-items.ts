import type { ConversationItemObject, Response, ResponseInputItem } from '@trainyard/protocol';
import type { ConversationItem, ConversationKey, ConversationTurn } from '@trainyard/store';

import { conflict, invalidAt } from '../shared/conflict.ts';
import { type KeptItem, toListedItem, withIds } from './kept-items.ts';

/** Items of conversations, between requests, the store and answers. */

/** Ids are index keys: printable ASCII with a length that every database supports. */
const ITEM_ID = /^[\x20-\x7e]{1,256}$/;

/**
 * Items to add to a conversation, each with an id.
 * @param known ids of its items
 * @param root name of the field with the items
 * @throws {RequestError} for an id that is taken or too long
 */
export function newItems(items: readonly ResponseInputItem[], known: ReadonlySet<string>, root: string): KeptItem[] {
  const ids = new Set<string>();
  for (const [index, { id }] of items.entries()) {
    if (typeof id !== 'string') continue;
    const place = `${root}.${index}.id`;
    if (!ITEM_ID.test(id)) throw invalidAt(place, 'Ids must be 1 to 256 printable ASCII characters', 'string_pattern');
    if (known.has(id) || ids.has(id))
      throw conflict(
        place,
        `The conversation already has an item with the id ${JSON.stringify(id)}. Send only new items`,
      );
    ids.add(id);
  }
  return withIds(items);
}

/** Input and output of an answer, as its conversation gets them. The ids of the output are of this answer only. */
export function turnIn(
  conversation: ConversationKey,
  input: readonly KeptItem[],
  { output }: Response,
): ConversationTurn {
  return { conversation, items: [...input, ...output].map(toStored), ownItemId: output[0]?.id };
}

export function toStored(item: { readonly id: string }): ConversationItem {
  return { id: item.id, item: JSON.stringify(item) };
}

export function fromStored({ id, item }: ConversationItem): KeptItem {
  return { ...(JSON.parse(item) as ResponseInputItem), id };
}

/** An item in its listed form. Messages have a status, which clients omit. */
export function toListedConversationItem(stored: ConversationItem): ConversationItemObject {
  const item = toListedItem(fromStored(stored));
  return item.type === 'message' ? { ...item, status: item['status'] ?? 'completed' } : item;
}
