import { CoreLease, type CoreCommand, type CoreMessage } from './core-lease.ts';
import { LifeSigns } from './life-signs.ts';
import type { HostFailure } from './messages.ts';

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
  /** the host's claim on the shared cores */
  readonly lease: CoreLease;
}

/**
 * Ties this process to the API process: commands come in, messages go out, and the process ends when the API process does. Commands about the
 * cores go to the lease.
 *
 * Ctrl-C reaches the whole process group; the API process decides when a host ends, so that running requests can be drained.
 */
export function connectHost<Command extends { kind: string }, Message extends object>(
  onCommand: (command: Command) => void,
): HostLine<Message> {
  const send = (message: Message | CoreMessage) => {
    if (process.connected) process.send?.(message);
  };
  const lease = new CoreLease(send, lifeSigns);
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', () => undefined);
  process.on('disconnect', () => process.exit(0));
  process.on('message', (command: Command | CoreCommand) => {
    if (isCoreCommand(command)) lease.onCommand(command);
    else onCommand(command);
  });
  return { send, lease };
}

export function failureOf(error: unknown): HostFailure {
  if (!(error instanceof Error)) return { code: 'internal', message: String(error) };
  const { code } = error as Error & { code?: unknown };
  return { code: typeof code === 'string' ? code : 'internal', message: error.message };
}

function isCoreCommand(command: { kind: string }): command is CoreCommand {
  return command.kind === 'cores-granted' || command.kind === 'cores-wanted';
}
