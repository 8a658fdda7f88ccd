/** A host that loads nothing: it can be told to block its main thread for ever or to write a file, and says who it is. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { connectHost } from './host-main.ts';

export type IdleCommand =
  | { kind: 'spin' }
  | { kind: 'wait' }
  | { kind: 'write'; folder: string }
  | { kind: 'shutdown' };
export type IdleMessage = { kind: 'ready'; pid: number } | { kind: 'written' };

const { send } = connectHost<IdleCommand, IdleMessage>((command) => {
  if (command.kind === 'shutdown') process.exit(0);
  if (command.kind === 'write') {
    mkdirSync(command.folder);
    writeFileSync(join(command.folder, 'weights'), '');
    return send({ kind: 'written' });
  }
  const forever = new Int32Array(new SharedArrayBuffer(4));
  if (command.kind === 'wait') Atomics.wait(forever, 0, 0);
  for (;;) if (Atomics.load(forever, 0) !== 0) break;
});
send({ kind: 'ready', pid: process.pid });
