import { randomUUID } from 'node:crypto';
import { accessSync, chmodSync, constants, lstatSync, readFileSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { createFile, makeFolders, replaceFile } from '@trainyard/store';

import { DiskReserve } from './disk-reserve.ts';
import { ServerError } from '../faults/server-error.ts';

const LOCK_FILE = 'service.pid';
const INSTANCE_FILE = 'instance';

/** Where each kind of state lives below the data folder. */
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
 * Looks at what is there of the data folder, and changes nothing.
 *
 * @returns the folder itself, or the nearest one above that is there
 * @throws {ServerError} `server.data_directory_unusable` where no folder can be, or none to write in
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

/**
 * Looks whether {@link claimDataDirectory} would have the folder, and changes nothing.
 * @throws {ServerError} `server.data_directory_unusable`
 */
export function refuseTakenDataDirectory(dataDirectory: string): void {
  refuseUnusableDataDirectory(dataDirectory);
  const owner = lockOwner(dataDirectory);
  if (owner !== null) throw taken(dataDirectory, owner);
}

/** Also by a link that leads nowhere: no folder can be made there. */
function isTaken(path: string): boolean {
  try {
    lstatSync(path);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // Below a file nothing is: what is in the way is further up.
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
 * Makes the data folder and takes it for this process: two services on one folder would bear one name (`instanceOf`), and each take the other's running jobs
 * for its own from before a crash.
 *
 * @returns gives the folder back
 * @throws {ServerError} `server.data_directory_unusable`
 */
export function claimDataDirectory(dataDirectory: string): () => void {
  const lockPath = join(dataDirectory, LOCK_FILE);
  refuseUnusableDataDirectory(dataDirectory);
  try {
    makeFolders(dataDirectory);
    // It holds prompts, answers and keys: its owner's alone, also when the folder was there before.
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
 * Names the services that serve on this folder one after the other, among all that share its database: what one of them left half done is its
 * successor's to take up, and nobody else's. Made with the folder; whoever copies a folder to serve on both removes the file `instance` from the copy.
 */
export function instanceOf(dataDirectory: string): string {
  const kept = readInstance(dataDirectory);
  if (kept !== null) return kept;
  const id = randomUUID();
  replaceFile(join(dataDirectory, INSTANCE_FILE), `${id}\n`);
  return id;
}

/** The same; null while it has none. */
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
    // Both would bear one name on a shared database, and each take the running jobs of the other.
    return new ServerError(
      'server.data_directory_unusable',
      `the data folder ${dataDirectory} is a copy: its ${LOCK_FILE} belongs to process ${pid}, which uses another folder; remove ${LOCK_FILE} and ${INSTANCE_FILE} to use the copy`,
    );
  return new ServerError(
    'server.data_directory_unusable',
    `the data folder ${dataDirectory} is in use by process ${pid}; stop it or set TRAINYARD_DATA_DIR`,
  );
}

/** Tells other commands on this machine where the service on this folder is; it is the owner of the folder that says so. */
export function announceService(dataDirectory: string, url: string): void {
  // A reader must never take a half of it for a dead owner's.
  replaceFile(join(dataDirectory, LOCK_FILE), lockText(dataDirectory, url));
}

/** Which process serves on a data folder, and where; `url` is null while it starts. Null when none does. */
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
  /** Device and number of the folder, which a copy does not have. Absent in locks of earlier releases. */
  folder?: string;
}

interface LiveOwner {
  readonly pid: number;
  readonly url: string | null;
  /** It serves on another folder, of which this one is a copy. */
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

/** The process that wrote the lock, if it still runs. Numbers are used again (and a container gives every life the same), so its start must agree. */
function liveOwner(content: string, dataDirectory: string): LiveOwner | null {
  let owner: { pid?: unknown; startedAt?: unknown; url?: unknown; folder?: unknown };
  try {
    owner = JSON.parse(content) as typeof owner;
  } catch {
    return null; // cut off while it was written
  }
  const { pid, startedAt, url, folder } = owner;
  if (typeof pid !== 'number' || !Number.isSafeInteger(pid) || pid <= 0 || pid === process.pid) return null;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return null;
  }
  if (processStart(pid) !== startedAt) return null;
  const isForeign = typeof folder === 'string' && folder !== folderIdentity(dataDirectory);
  return { pid, url: typeof url === 'string' ? url : null, isForeign };
}

/** When a process began, in clock ticks since boot with the boot's id; null where the system does not tell, and then only the number counts. */
function processStart(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const ticks = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
    return `${readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()}/${ticks}`;
  } catch {
    return null;
  }
}
