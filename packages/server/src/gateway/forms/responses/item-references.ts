import type { ResponseInputItem } from '@trainyard/protocol';
import type { KeptScope } from '@trainyard/store';

import { RequestError } from '../../../seams/faults/request-error.ts';
import { conflict } from '../shared/conflict.ts';
import { fromStored } from './conversation-items.ts';
import { outputOf, quoted, referenceOf } from './kept-items.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import type { KeptMemory } from './kept-memory.ts';

/**
 * Maximum number of different kept items that one request may refer to: each is looked up. An agent with a
 * reasoning model makes two per step.
 */
const MAX_REFERENCES = 1024;

/**
 * Replaces references by kept items; null if there are none.
 * @param root name of the field with the items
 * @throws {RequestError} `request.not_found` for an item, `request.body_too_large`
 */
export async function resolveReferences(
  items: readonly ResponseInputItem[],
  { scope, memory }: { readonly scope: KeptScope; readonly memory: KeptMemory },
  { store }: RouteParts,
  root = 'input',
): Promise<ResponseInputItem[] | null> {
  const ids = items.map(referenceOf);
  const wanted = new Set(ids.filter((id) => id !== null));
  if (wanted.size === 0) return null;
  if (wanted.size > MAX_REFERENCES)
    throw conflict(
      root,
      `\`${root}\` references ${wanted.size} items; the limit is ${MAX_REFERENCES}. Send the items themselves, or continue the previous answer with \`previous_response_id\``,
    );
  const known = new Map<string, { readonly item: ResponseInputItem; readonly numBytes: number }>();
  const resolved: ResponseInputItem[] = [];
  for (const [index, item] of items.entries()) {
    const id = ids[index] ?? null;
    if (id === null) {
      resolved.push(item);
      continue;
    }
    if (!known.has(id)) {
      // One answer at a time: unreferenced items are not held.
      const answer = await store.keptAnswers.findItem(scope, id, memory.open);
      for (const [itemId, found] of answer === null ? [] : outputOf(answer))
        if (wanted.has(itemId) && !known.has(itemId))
          known.set(itemId, { item: found, numBytes: Buffer.byteLength(JSON.stringify(found)) });
      const inConversation = known.has(id) ? null : await store.conversations.findItemOfAny(scope, id, memory.open);
      if (inConversation !== null)
        known.set(id, { item: fromStored(inConversation), numBytes: Buffer.byteLength(inConversation.item) });
    }
    const found = known.get(id);
    if (found === undefined)
      throw new RequestError(
        'request.not_found',
        `Item with id ${quoted(id)} not found. Send the item itself; clients do so with \`store: false\``,
        { param: `${root}.${index}.id` },
      );
    // Repeated references count again: each adds to the prompt.
    memory.take(found.numBytes, `${root}.${index}`);
    resolved.push(found.item);
  }
  await memory.open(0);
  return resolved;
}
