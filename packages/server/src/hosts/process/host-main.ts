import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';

import { CoreLease, type CoreCommand, type CoreMessage } from '../computing/core-lease.ts';
import { LifeSigns } from './life-signs.ts';
import type { Answered, HostFailure, Shutdown } from './messages.ts';

// Weights, snapshots and exports are made from prompts and answers, by libraries that leave the mode to the mask: their owner's alone.
process.umask(0o077);

// From the start: loading a model is work too, and can hang.
const lifeSigns = new LifeSigns();

/** The options this host was started with; written by the supervisor, so trusted. */
export function hostOptions<Options>(): Options {
  const argument = process.argv[2];
  if (argument === undefined) throw new Error('a host is started by the service, not by hand');
  return JSON.parse(argument) as Options;
}

/** Opens what the host works with; a host that never can with these options says why and ends. */
export async function openOrRefuse<Opened>(open: () => Opened | Promise<Opened>): Promise<Opened> {
  try {
    return await open();
  } catch (error) {
    const sent = Promise.withResolvers<void>();
    process.send?.({ kind: 'fatal', failure: failureOf(error) }, undefined, undefined, () => sent.resolve());
    await sent.promise;
    process.exit(1);
  }
}

/** This host's end of the line to the API process. */
export interface HostLine<Message extends object> {
  readonly send: (message: Message | CoreMessage) => void;
  /** Resolves once the API process has read all but the last 128 KB or so. A loop awaits it, so that its messages do not pile up. */
  readonly whenRead: () => Promise<void>;
  /** the host's claim on the shared cores */
  readonly lease: CoreLease;
  /** Awaited by a loop between two of its steps: resolves when the commands that arrived meanwhile are taken, all of them up to a number. */
  readonly letCommandsIn: () => Promise<void>;
}

/**
 * Between two steps: a place for every request that the service admits by default and one more for its end. More wait for the next step, so that
 * commands without end do not keep a step from its turn.
 */
const MAX_COMMANDS_BETWEEN_STEPS = 4_096;

/**
 * Ties this process to the API process: commands come in, messages go out, and the process ends when the API process does. Commands about the
 * cores go to the lease.
 *
 * Ctrl-C reaches the whole process group; the API process decides when a host ends, so that running requests can be drained.
 */
export function connectHost<Command extends { kind: string }, Message extends object>(
  onCommand: (command: Command) => void,
): HostLine<Message> {
  let backlog: Promise<void> | null = null;
  const send = (message: Message | CoreMessage) => {
    if (!process.connected) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    // Node returns false while more than 128 KB wait to be written.
    const hasRoom = process.send?.(message, undefined, undefined, () => resolve());
    backlog = hasRoom === false ? promise : null;
  };
  const whenRead = async () => {
    while (backlog !== null && process.connected) {
      const awaited = backlog;
      await awaited;
      if (backlog === awaited) backlog = null;
    }
  };
  const lease = new CoreLease(send, lifeSigns);
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', () => undefined);
  process.on('disconnect', () => process.exit(0));
  let numTaken = 0;
  process.on('message', (command: Command | CoreCommand) => {
    numTaken += 1;
    if (isCoreCommand(command)) lease.onCommand(command);
    else onCommand(command);
  });
  // One turn of the event loop reads 64 KiB of the channel, some thirty requests: a loop that gave one turn between two steps would hear of a
  // burst, and of its end, only a minute later.
  const letCommandsIn = async () => {
    const before = numTaken;
    for (let last = -1; numTaken !== last && numTaken - before < MAX_COMMANDS_BETWEEN_STEPS;) {
      last = numTaken;
      await nextTurn();
      // The pipe holds little more than one read: the other side needs a moment to fill it again.
      if (numTaken === last && numTaken !== before) await delay(1);
    }
  };
  return { send, whenRead, lease, letCommandsIn };
}

/** The whole of a host that `askHost` starts: it finds one answer, or says why there is none, and waits for its end. */
export async function answerAsHost(find: () => object | Promise<object>): Promise<void> {
  const answer = await openOrRefuse(find);
  const { send } = connectHost<Shutdown, Answered<object>>(() => process.exit(0));
  send({ kind: 'ready', answer });
}

export function failureOf(error: unknown): HostFailure {
  if (!(error instanceof Error)) return { code: 'internal', message: String(error) };
  const { code } = error as Error & { code?: unknown };
  return { code: typeof code === 'string' ? code : 'internal', message: error.message };
}

function isCoreCommand(command: { kind: string }): command is CoreCommand {
  return command.kind === 'cores-granted' || command.kind === 'cores-wanted';
}
