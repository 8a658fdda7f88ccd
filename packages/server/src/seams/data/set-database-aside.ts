import { existsSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';

import { syncFolder } from '@trainyard/store/places';

/** @returns the new path */
export function setDatabaseAside(path: string, why: string): string {
  const aside = `${path}.${why}-${new Date().toISOString().replaceAll(/[:.]/g, '-')}`;
  // The logs go first: next to a new file they would be taken for its own.
  for (const suffix of ['-wal', '-shm', '']) if (existsSync(path + suffix)) renameSync(path + suffix, aside + suffix);
  syncFolder(dirname(path));
  return aside;
}
