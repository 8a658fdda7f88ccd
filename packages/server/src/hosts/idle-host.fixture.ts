/** A host that loads nothing: it can be told to block its main thread for ever, and says who it is. */
import { connectHost } from './host-main.ts';

export type IdleCommand = { kind: 'spin' } | { kind: 'wait' } | { kind: 'shutdown' };
export type IdleMessage = { kind: 'ready'; pid: number };

const { send } = connectHost<IdleCommand, IdleMessage>((command) => {
  if (command.kind === 'shutdown') process.exit(0);
  const forever = new Int32Array(new SharedArrayBuffer(4));
  if (command.kind === 'wait') Atomics.wait(forever, 0, 0);
  for (;;) if (Atomics.load(forever, 0) !== 0) break;
});
send({ kind: 'ready', pid: process.pid });
