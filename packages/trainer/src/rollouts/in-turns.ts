import { setImmediate } from 'node:timers/promises';

/**
 * Gives the event loop a turn after each step: a conversation of a thousand turns takes a minute to render, and
 * a cancellation must take effect meanwhile.
 *
 * @throws the abort reason of `signal`
 */
export async function inTurns<Result>(turns: Generator<void, Result, void>, signal: AbortSignal): Promise<Result> {
  for (;;) {
    const { done, value } = turns.next();
    if (done) return value;
    await setImmediate();
    signal.throwIfAborted();
  }
}
