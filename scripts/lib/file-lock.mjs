import { randomUUID } from 'node:crypto';
import { link, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { makeFolders } from './make-folders.mjs';

const POLL_MS = 200;
const HEARTBEAT_MS = 5_000;
/** A lock that was not touched for this time is abandoned: its host is gone, or its process id was reused. */
const ABANDONED_AFTER_MS = 60_000;

/**
 * Runs `work` while no other process runs its own under the same lock file. The lock of a dead owner is taken
 * over: at once if it ran on this host, otherwise after a minute without a sign of life.
 *
 * @template T
 * @param {string} path
 * @param {() => Promise<T>} work
 * @param {{ onWait?: (owner: string) => void }} [options] `onWait` is called once, with the owner's process
 * id, if another process holds the lock
 * @returns {Promise<T>}
 */
export async function withFileLock(path, work, { onWait } = {}) {
  makeFolders(dirname(path));
  const mine = `${process.pid} ${hostname()}\n`;
  let hasReported = false;
  while (!(await tryCreate(path, mine))) {
    const owner = await readFile(path, 'utf8').catch(() => '');
    if (isDead(owner) || (await isAbandoned(path))) {
      await takeAway(path, owner);
      continue;
    }
    if (!hasReported) onWait?.(owner.split(' ')[0] || 'unknown');
    hasReported = true;
    await sleep(POLL_MS);
  }
  // A failed touch is harmless while this process runs.
  const heartbeat = setInterval(() => void utimes(path, new Date(), new Date()).catch(() => {}), HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(heartbeat);
    await rm(path, { force: true });
  }
}

/** @param {string} path @param {string} content */
async function tryCreate(path, content) {
  const draft = `${path}.${randomUUID()}.new`;
  await writeFile(draft, content);
  try {
    // A link appears with its content, so no process reads an empty lock, and it fails if the lock exists.
    await link(draft, path);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

/** @param {string} owner content of a lock file; empty if it was just released */
function isDead(owner) {
  const [pid, host] = owner.trim().split(' ');
  if (pid === undefined || pid === '' || host !== hostname()) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (error) {
    // EPERM: it runs, under another user.
    return error instanceof Error && 'code' in error && error.code === 'ESRCH';
  }
}

/** @param {string} path */
async function isAbandoned(path) {
  const found = await stat(path).catch(() => null);
  return found !== null && Date.now() - found.mtimeMs > ABANDONED_AFTER_MS;
}

/** @param {string} path @param {string} deadOwner */
async function takeAway(path, deadOwner) {
  const aside = `${path}.${randomUUID()}.dead`;
  await rename(path, aside).catch(() => {});
  const taken = await readFile(aside, 'utf8').catch(() => deadOwner);
  // Another waiter was faster and this is already its lock: put it back.
  if (taken !== deadOwner) await rename(aside, path);
  await rm(aside, { force: true });
}
