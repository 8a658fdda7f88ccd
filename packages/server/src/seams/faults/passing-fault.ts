const PASSING: ReadonlySet<unknown> = new Set(['store.busy', 'store.disk_full', 'store.unavailable']);

/**
 * True for a passing fault of the machine, not of the job: a held lock, a full disk, a disk that does not
 * answer. The work can be retried.
 */
export function isPassing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && PASSING.has(error.code);
}

/** The same without a full disk: work that writes a lot fails at once, and its caller can retry. */
export function isPassingButFull(error: unknown): boolean {
  return isPassing(error) && (error as { code?: unknown }).code !== 'store.disk_full';
}
