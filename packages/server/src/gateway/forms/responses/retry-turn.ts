import { setTimeout } from 'node:timers/promises';

import { type ConversationTurn, StoreError } from '@trainyard/store';

const RETRY_MS = 250;
/** The client waits for its answer meanwhile. */
const RETRIED_FOR_MS = 10_000;

/**
 * Writes a turn, again while the database is busy or away: its answer is computed. After an outage the turn
 * may have been written, so it is only repeated if the store can recognise it.
 */
export async function retryTurn<Result>(
  { ownItemId }: ConversationTurn,
  write: () => Promise<Result>,
): Promise<Result> {
  const startedAt = performance.now();
  for (;;) {
    try {
      return await write();
    } catch (error) {
      const code = error instanceof StoreError ? error.code : null;
      const isPassing = code === 'store.busy' || (code === 'store.unavailable' && ownItemId !== undefined);
      if (!isPassing || performance.now() - startedAt > RETRIED_FOR_MS) throw error;
    }
    await setTimeout(RETRY_MS);
  }
}
