import type { CoreCommand } from './core-lease.ts';
import type { HostFailure } from './messages.ts';

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

/**
 * Ties this process to the API process: commands come in, messages go out, and the process ends when the API process does.
 *
 * Ctrl-C reaches the whole process group; the API process decides when a host ends, so that running requests can be drained.
 */
export function serveCommands<Command, Message extends object>(
  onCommand: (command: Command) => void,
): (message: Message) => void {
  process.on('SIGINT', () => undefined);
  process.on('SIGTERM', () => undefined);
  process.on('disconnect', () => process.exit(0));
  process.on('message', (command) => onCommand(command as Command));
  return (message) => {
    if (process.connected) process.send?.(message);
  };
}

export function failureOf(error: unknown): HostFailure {
  if (!(error instanceof Error)) return { code: 'internal', message: String(error) };
  const { code } = error as Error & { code?: unknown };
  return { code: typeof code === 'string' ? code : 'internal', message: error.message };
}

export function isCoreCommand(command: { kind: string }): command is CoreCommand {
  return command.kind === 'cores-granted' || command.kind === 'cores-wanted';
}
