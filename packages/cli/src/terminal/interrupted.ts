import { InterruptedError } from './command-error.ts';

/** Aborted by the first Ctrl-C, SIGTERM or end of the terminal, with an error that says so; the second one ends the process, as ever. */
export function interruption(): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => interrupted.abort(new InterruptedError(signal)));
  return interrupted.signal;
}
