import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';

import { CoreLease, type CoreCommand, type CoreMessage } from '../computing/core-lease.ts';
import { LifeSigns } from './life-signs.ts';
import type { Answered, HostFailure, Shutdown } from './messages.ts';

// Only the owner may read weights, snapshots and exports: they are made from prompts and answers, by
// libraries that use the umask.
process.umask(0o077);

// From the start, because loading a model can hang, too.
const lifeSigns = new LifeSigns();

/** Options of this host; trusted, because the supervisor writes them. */
export function hostOptions<Options>(): Options {
  const argument = process.argv[2];
  if (argument === undefined) throw new Error('a host is started by the service, not by hand');
  return JSON.parse(argument) as Options;
}

/** Opens the host's resources. If that fails, reports the reason and ends. */
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

export interface HostLine<Message extends object> {
  readonly send: (message: Message | CoreMessage) => void;
  /**
   * Resolves once the API process has read all but about the last 128 KB. A loop awaits it, so that its
   * messages do not pile up.
   */
  readonly whenRead: () => Promise<void>;
  readonly lease: CoreLease;
  /**
   * Lets a loop take commands between two steps: resolves when those that have arrived are taken, up to a
   * limit.
   */
  readonly yieldToCommands: () => Promise<void>;
}

/**
 * Between two steps: two for every request that the service admits by default, one for its end. Further
 * commands wait for the next step, so that endless commands do not block the steps.
 */
const MAX_COMMANDS_BETWEEN_STEPS = 4_096;

/**
 * Connects this process to the API process: commands come in, messages go out, and the process ends with the
 * API process. Commands about the cores go to the lease. Ignores Ctrl-C: the API process ends hosts, so that
 * running requests can drain.
 */
export function connectHost<Command extends { kind: string }, Message extends object>(
  onCommand: (command: Command) => void,
): HostLine<Message> {
  let backlog: Promise<void> | null = null;
  const send = (message: Message | CoreMessage) => {
    if (!process.connected) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    // Node returns false while more than 128 KB wait to be written.
    const isDrained = process.send?.(message, undefined, undefined, () => resolve());
    backlog = isDrained === false ? promise : null;
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
  // One turn of the event loop reads 64 KiB of the channel, about thirty requests: with one turn between two
  // steps, a loop would see the end of a burst only a minute later.
  const yieldToCommands = async () => {
    const before = numTaken;
    for (let last = -1; numTaken !== last && numTaken - before < MAX_COMMANDS_BETWEEN_STEPS;) {
      last = numTaken;
      await nextTurn();
      // The pipe holds little more than one read; the other side needs time to refill it.
      if (numTaken === last && numTaken !== before) await delay(1);
    }
  };
  return { send, whenRead, lease, yieldToCommands };
}

/** Runs a host that `askHost` starts: computes one answer, or reports why it cannot, and waits for its end. */
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
