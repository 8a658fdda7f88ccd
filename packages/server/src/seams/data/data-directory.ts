import { randomUUID } from 'node:crypto';
import { accessSync, chmodSync, constants, lstatSync, readFileSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { createFile, makeFolders, replaceFile } from '@trainyard/store/places';

import { DiskReserve } from './disk-reserve.ts';
import { isRunning } from './is-running.ts';
import { ServerError } from '../faults/server-error.ts';

const LOCK_FILE = 'service.pid';
const INSTANCE_FILE = 'instance';

export function dataPaths(dataDirectory: string) {
  return {
    database: join(dataDirectory, 'trainyard.sqlite'),
    blobs: join(dataDirectory, 'blobs'),
    models: join(dataDirectory, 'models'),
    modelDigests: join(dataDirectory, 'model-digests.json'),
    work: join(dataDirectory, 'work'),
    trainer: join(dataDirectory, 'trainer'),
    keyFile: join(dataDirectory, 'admin-key'),
  };
}

/**
 * Checks the data folder without changing it.
 * @returns the folder itself, or its nearest existing parent
 * @throws {ServerError} `server.data_directory_unusable` if no writable folder can be there
 */
export function refuseUnusableDataDirectory(dataDirectory: string): string {
  let existing = dataDirectory;
  try {
    while (!isTaken(existing)) existing = dirname(existing);
    if (!statSync(existing).isDirectory()) throw new Error(`${existing} is not a folder`);
    accessSync(existing, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (error) {
    throw unusable(dataDirectory, error as Error);
  }
  return existing;
}

/** @throws {ServerError} `server.data_directory_unusable` if {@link claimDataDirectory} would fail */
export function refuseTakenDataDirectory(dataDirectory: string): void {
  refuseUnusableDataDirectory(dataDirectory);
  const owner = lockOwner(dataDirectory);
  if (owner !== null) throw taken(dataDirectory, owner);
}

/** True also for a dangling link: no folder can be made there. */
function isTaken(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // The path goes through a file: a parent is in the way.
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
    return false;
  }
}

function unusable(dataDirectory: string, { message }: Error): ServerError {
  return new ServerError(
    'server.data_directory_unusable',
    `the data folder ${dataDirectory} cannot be used: ${message}; set TRAINYARD_DATA_DIR to another folder`,
  );
}

/**
 * Creates the data folder and locks it for this process. Two services on one folder would share a name
 * (`instanceOf`), and each would take the other's running jobs for its own from before a crash.
 * @returns releases the folder
 * @throws {ServerError} `server.data_directory_unusable`
 */
export function claimDataDirectory(dataDirectory: string): () => void {
  const lockPath = join(dataDirectory, LOCK_FILE);
  refuseUnusableDataDirectory(dataDirectory);
  try {
    makeFolders(dataDirectory);
    // The folder holds prompts, answers and keys, so only its owner may read it, even if it existed before.
    chmodSync(dataDirectory, 0o700);
    new DiskReserve(dataDirectory).release();
    removeStaleLock(lockPath, dataDirectory);
    createFile(lockPath, lockText(dataDirectory, null));
  } catch (error) {
    if (error instanceof ServerError) throw error;
    throw unusable(dataDirectory, error as Error);
  }
  return () => rmSync(lockPath, { force: true });
}

/**
 * Identity of the services that run on this folder one after the other: only a successor continues their
 * unfinished work. To serve on a copy too, remove the file `instance` from the copy.
 */
export function instanceOf(dataDirectory: string): string {
  const kept = readInstance(dataDirectory);
  if (kept !== null) return kept;
  const id = randomUUID();
  replaceFile(join(dataDirectory, INSTANCE_FILE), `${id}\n`);
  return id;
}

/** Reads the identity; null if the folder has none. */
export function readInstance(dataDirectory: string): string | null {
  try {
    return readFileSync(join(dataDirectory, INSTANCE_FILE), 'utf8').trim() || null;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return null;
  }
}

function removeStaleLock(lockPath: string, dataDirectory: string): void {
  let content: string;
  try {
    content = readFileSync(lockPath, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  const owner = liveOwner(content, dataDirectory);
  if (owner !== null) throw taken(dataDirectory, owner);
  rmSync(lockPath);
}

function taken(dataDirectory: string, { pid, isForeign }: LiveOwner): ServerError {
  if (isForeign)
    // Both would share a name on a shared database, and each would take the other's running jobs.
    return new ServerError(
      'server.data_directory_unusable',
      `the data folder ${dataDirectory} is a copy: its ${LOCK_FILE} belongs to process ${pid}, which uses another folder; remove ${LOCK_FILE} and ${INSTANCE_FILE} to use the copy`,
    );
  return new ServerError(
    'server.data_directory_unusable',
    `the data folder ${dataDirectory} is in use by process ${pid}; stop it or set TRAINYARD_DATA_DIR`,
  );
}

/** Publishes the service's URL in the folder's lock, for other commands on this machine. */
export function announceService(dataDirectory: string, url: string): void {
  // Atomic: a reader must not take half a file for a dead owner's lock.
  replaceFile(join(dataDirectory, LOCK_FILE), lockText(dataDirectory, url));
}

/** Process that serves on a data folder, with its URL (null while it starts). Null if none does. */
export function findRunningService(dataDirectory: string): { pid: number; url: string | null } | null {
  const owner = lockOwner(dataDirectory);
  return owner === null || owner.isForeign ? null : { pid: owner.pid, url: owner.url };
}

function lockOwner(dataDirectory: string): LiveOwner | null {
  try {
    return liveOwner(readFileSync(join(dataDirectory, LOCK_FILE), 'utf8'), dataDirectory);
  } catch {
    return null;
  }
}

interface LockOwner {
  pid: number;
  startedAt: string | null;
  /** e.g. `http://127.0.0.1:8420` */
  url: string | null;
  /** Device and inode of the folder, which a copy does not share. Absent in locks of earlier releases. */
  folder?: string;
}

interface LiveOwner {
  readonly pid: number;
  readonly url: string | null;
  /** The owner serves on another folder, of which this one is a copy. */
  readonly isForeign: boolean;
}

function lockText(dataDirectory: string, url: string | null): string {
  const { pid } = process;
  const owner: LockOwner = { pid, startedAt: processStart(pid), url, folder: folderIdentity(dataDirectory) };
  return JSON.stringify(owner);
}

function folderIdentity(dataDirectory: string): string {
  const { dev, ino } = statSync(dataDirectory);
  return `${dev}:${ino}`;
}

/**
 * Process that wrote the lock, if it still runs. Pids are reused (in containers often the same), so the start
 * time must match.
 */
function liveOwner(content: string, dataDirectory: string): LiveOwner | null {
  let owner: { pid?: unknown; startedAt?: unknown; url?: unknown; folder?: unknown };
  try {
    owner = JSON.parse(content) as typeof owner;
  } catch {
    return null; // cut off during the write
  }
  const { pid, startedAt, url, folder } = owner;
  if (typeof pid !== 'number' || !Number.isSafeInteger(pid) || pid <= 0 || pid === process.pid) return null;
  if (!isRunning(pid) || processStart(pid) !== startedAt) return null;
  const isForeign = typeof folder === 'string' && folder !== folderIdentity(dataDirectory);
  return { pid, url: typeof url === 'string' ? url : null, isForeign };
}

/**
 * Start of a process in clock ticks since boot, with the boot's id. Null if the system does not report it:
 * then only the pid counts.
 */
function processStart(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${ticks}`;
  } catch {
    return null;
  }
}
