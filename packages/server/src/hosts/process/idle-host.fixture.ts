/**
 * A host that loads nothing: commands make it block its main thread for ever, write a file, count in steps,
 * or report its pid.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { connectHost } from './host-main.ts';

export type IdleCommand =
  | { kind: 'spin' }
  | { kind: 'wait' }
  | { kind: 'write'; folder: string }
  | { kind: 'count'; upTo: number; payload: string }
  | { kind: 'shutdown' };
export type IdleMessage = { kind: 'ready'; pid: number } | { kind: 'written' } | { kind: 'counted'; numSteps: number };

let numCounted = 0;
const { send, yieldToCommands } = connectHost<IdleCommand, IdleMessage>((command) => {
  if (command.kind === 'shutdown') process.exit(0);
  if (command.kind === 'count') {
    numCounted += 1;
    if (numCounted === 1) void step(command.upTo);
    return;
  }
  if (command.kind === 'write') {
    mkdirSync(command.folder);
    writeFileSync(join(command.folder, 'weights'), '');
    return send({ kind: 'written' });
  }
  const forever = new Int32Array(new SharedArrayBuffer(4));
  if (command.kind === 'wait') Atomics.wait(forever, 0, 0);
  for (;;) if (Atomics.load(forever, 0) !== 0) break;
});

/** Steps of 50 ms, which block the thread, until that many commands have come. */
async function step(upTo: number): Promise<void> {
  let numSteps = 0;
  for (; numCounted < upTo; numSteps++) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    await yieldToCommands();
  }
  send({ kind: 'counted', numSteps });
}

send({ kind: 'ready', pid: process.pid });
