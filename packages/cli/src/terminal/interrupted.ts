import { InterruptedError } from './command-error.ts';

/**
 * Signal that the first Ctrl-C, SIGTERM or end of the terminal aborts with an {@link InterruptedError}; the
 * second ends the process by default.
 */
export function interruption(): AbortSignal {
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => interrupted.abort(new InterruptedError(signal)));
  return interrupted.signal;
}
