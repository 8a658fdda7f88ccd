import { CommandError } from './command-error.ts';

/** Aborted by the first Ctrl-C or SIGTERM, with an error that says so; the second one ends the process, as ever. */
export function interruption(): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => interrupted.abort(new CommandError('interrupted')));
  return interrupted.signal;
}
