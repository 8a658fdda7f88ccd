import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { isRunning } from '../seams/data/is-running.ts';

const POLL_MS = 250;
const HEARTBEAT_MS = 5_000;
/** A lock without a sign of life for this time is abandoned: its machine is gone. */
const ABANDONED_MS = 60_000;

/**
 * Runs work while no other process has the lock. The lock of a process that died is taken over: at once on this
 * machine, else after a minute.
 */
export async function withFileLock<Result>(
  path: string,
  signal: AbortSignal,
  work: () => Promise<Result>,
): Promise<Result> {
  mkdirSync(dirname(path), { recursive: true });
  const owner = `${process.pid} ${hostname()} ${randomUUID()}`;
  while (!isTaken(path, owner)) {
    signal.throwIfAborted();
    if (isAbandoned(path)) takeAway(path);
    else await delay(POLL_MS, undefined, { signal });
  }
  const heartbeat = setInterval(() => touch(path), HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    if (read(path) === owner) rmSync(path, { force: true });
  }
}

/** A lock whose process ended before it wrote its name is abandoned after a minute. */
function isTaken(path: string, owner: string): boolean {
  try {
    writeFileSync(path, owner, { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

function isAbandoned(path: string): boolean {
  const [pid, host] = read(path).split(' ');
  if (host === hostname() && pid !== undefined) return !isRunning(Number(pid));
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat !== undefined && Date.now() - stat.mtimeMs > ABANDONED_MS;
}

/** Removes an abandoned lock. Of several waiters one renames it; a lock that a faster one took is put back. */
function takeAway(path: string): void {
  const aside = `${path}.${randomUUID()}`;
  const seen = read(path);
  try {
    renameSync(path, aside);
  } catch {
    return; // another waiter was faster
  }
  if (read(aside) !== seen) renameSync(aside, path);
  rmSync(aside, { force: true });
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function touch(path: string): void {
  try {
    utimesSync(path, new Date(), new Date());
  } catch {
    // It was removed; the work continues.
  }
}
