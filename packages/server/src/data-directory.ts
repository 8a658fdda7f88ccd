import { closeSync, mkdirSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';

import { ServerError } from './errors.ts';

const LOCK_FILE = 'service.pid';

/** Where each kind of state lives below the data folder. */
export function dataPaths(dataDirectory: string) {
  return {
    database: join(dataDirectory, 'trainyard.sqlite'),
    blobs: join(dataDirectory, 'blobs'),
    models: join(dataDirectory, 'models'),
    work: join(dataDirectory, 'work'),
    keyFile: join(dataDirectory, 'admin-key'),
  };
}

/**
 * Makes the data folder and takes it for this process: two services on one folder would each think the other's running jobs were left over from
 * a crash.
 *
 * @returns gives the folder back
 * @throws {ServerError} `server.data_directory_unusable`
 */
export function claimDataDirectory(dataDirectory: string): () => void {
  const lockPath = join(dataDirectory, LOCK_FILE);
  try {
    mkdirSync(dataDirectory, { recursive: true });
    removeStaleLock(lockPath, dataDirectory);
    const file = openSync(lockPath, 'wx', 0o600);
    writeSync(file, String(process.pid));
    closeSync(file);
  } catch (error) {
    if (error instanceof ServerError) throw error;
    throw new ServerError(
      'server.data_directory_unusable',
      `the data folder ${dataDirectory} cannot be used: ${(error as Error).message}`,
    );
  }
  return () => rmSync(lockPath, { force: true });
}

function removeStaleLock(lockPath: string, dataDirectory: string): void {
  let pid: number;
  try {
    pid = Number(readFileSync(lockPath, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  // A container gives every life the same number, so our own is a leftover too.
  if (pid !== process.pid && isAlive(pid)) {
    throw new ServerError(
      'server.data_directory_unusable',
      `the data folder ${dataDirectory} is in use by process ${pid}; stop it or set TRAINYARD_DATA_DIR`,
    );
  }
  rmSync(lockPath);
}

function isAlive(pid: number): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
