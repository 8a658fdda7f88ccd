import { setImmediate } from 'node:timers/promises';

/**
 * Work that comes in turns, with a look at the rest of the process after each: a conversation of a thousand turns takes a minute to render, and whoever cancels its
 * job meanwhile must be heard.
 *
 * @throws what `signal` was aborted with
 */
export async function inTurns<Result>(turns: Generator<void, Result, void>, signal: AbortSignal): Promise<Result> {
  for (;;) {
    const { done, value } = turns.next();
    if (done) return value;
    await setImmediate();
    signal.throwIfAborted();
  }
}
