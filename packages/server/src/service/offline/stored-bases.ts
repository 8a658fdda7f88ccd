import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

import { readCopySource } from '@trainyard/trainer';

import { readHubSettings } from '../../hub/hub-settings.ts';
import { dataPaths, findRunningService } from '../../seams/data/data-directory.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import type { ServiceConfig } from '../settings/config.ts';

/** Files of a base model on this machine, apart from those that users keep themselves. */
export interface StoredBase {
  /** `hub`: a repository in the cache of the hub. `copy`: a GGUF file that a start made from a folder or a file. */
  readonly kind: 'hub' | 'copy';
  /** `ORG/NAME`, or the name of the file. */
  readonly name: string;
  readonly path: string;
  readonly sizeBytes: number;
  /** Bytes of interrupted downloads, part of the size. */
  readonly partialBytes: number;
  /** Folder or file that a copy was made from; null if unknown, and for a repository. */
  readonly source: string | null;
  /** True for a copy without its source: no start uses it. */
  readonly isOrphan: boolean;
}

/** Base models in the cache of the hub, then copies in the data folder, each by name. */
export function listStoredBases({ dataDirectory }: Pick<ServiceConfig, 'dataDirectory'>): StoredBase[] {
  const { cacheDirectory } = readHubSettings(process.env);
  const found = [repositoriesIn(cacheDirectory), copiesIn(dataPaths(dataDirectory).models)];
  return found.flatMap((bases) => bases.toSorted((one, other) => (one.name < other.name ? -1 : 1)));
}

/**
 * Removes the files of a base model. A later start or pull makes them again.
 * @throws {ServerError} `server.data_directory_unusable` while a service that may use them runs
 */
export function removeStoredBase(
  { kind, path, name, isOrphan }: StoredBase,
  { dataDirectory }: Pick<ServiceConfig, 'dataDirectory'>,
): void {
  const running = isOrphan ? null : findRunningService(dataDirectory);
  if (running !== null)
    throw new ServerError(
      'server.data_directory_unusable',
      `process ${running.pid} serves on ${dataDirectory} and may use ${name}: stop it first`,
    );
  if (kind === 'hub') rmSync(path, { recursive: true, force: true });
  // The stamp last: a copy without one is made again, a stamp without its copy too.
  else for (const file of [path, `${path}.partial`, `${path}.json`]) rmSync(file, { force: true });
}

function repositoriesIn(cacheDirectory: string): StoredBase[] {
  return namesIn(cacheDirectory)
    .filter((name) => /^models--[^-].*--./.test(name))
    .map((folder) => {
      const path = join(cacheDirectory, folder);
      const blobs = namesIn(join(path, 'blobs')).map((name) => ({ name, size: sizeOf(join(path, 'blobs', name)) }));
      const partial = blobs.filter(({ name }) => name.endsWith('.incomplete'));
      const name = folder.slice('models--'.length).replace('--', '/');
      const [sizeBytes, partialBytes] = [sumOf(blobs), sumOf(partial)];
      return { kind: 'hub', name, path, sizeBytes, partialBytes, source: null, isOrphan: false };
    });
}

function copiesIn(directory: string): StoredBase[] {
  const names = namesIn(directory);
  return names
    .filter((name) => name.endsWith('.gguf') && names.includes(`${name}.json`))
    .flatMap((name) => {
      const path = join(directory, name);
      const places = readCopySource(path);
      if (places === null) return [];
      const source = places[0] ?? null;
      const isOrphan = places.some((place) => !existsSync(place));
      return [{ kind: 'copy', name, path, sizeBytes: sizeOf(path), partialBytes: 0, source, isOrphan } as const];
    });
}

function namesIn(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function sumOf(files: readonly { readonly size: number }[]): number {
  return files.reduce((sum, { size }) => sum + size, 0);
}
