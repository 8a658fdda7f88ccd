const PASSING: ReadonlySet<unknown> = new Set(['store.busy', 'store.disk_full', 'store.unavailable']);

/** A fault of the machine, not of the job: a lock that is taken, a full disk, a disk that does not answer. What met it is worth doing again. */
export function isPassing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && PASSING.has(error.code);
}

/** The same without a full disk: what takes much of it is told at once, and who waits for it can ask again. */
export function isPassingButFull(error: unknown): boolean {
  return isPassing(error) && (error as { code?: unknown }).code !== 'store.disk_full';
}
