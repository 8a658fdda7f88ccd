import { BackendFailure } from './backend-failure.ts';

/** Failures to load an adapter that a retry does not fix. */
const LOAD_REFUSALS: ReadonlySet<string> = new Set(['engine.adapter_unreadable', 'engine.adapter_damaged']);

export function isLoadRefusal(error: unknown): error is BackendFailure {
  return error instanceof BackendFailure && LOAD_REFUSALS.has(error.code);
}

/** Client-safe reason of a refusal: one with a path, which is of the engine's machine, stays in the log. */
export function refusalForClients(reason: string): string {
  return reason.includes('/') ? 'the adapter was refused; see the log of the engine' : reason;
}
