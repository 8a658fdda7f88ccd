import {
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { randomUUID } from 'node:crypto';
import { dirname, join, relative, sep } from 'node:path';

import { isCommit, type RepositoryFile } from './repository-info.ts';

/**
 * One repository in the cache that all clients of the hub share: `blobs/DIGEST` has the content of a file,
 * `snapshots/COMMIT/NAME` links to it, and `refs/REVISION` has the commit of a branch or tag.
 * @see https://huggingface.co/docs/huggingface_hub/guides/manage-cache
 */
export class CachedRepository {
  readonly directory: string;

  constructor(cacheDirectory: string, repository: string) {
    this.directory = join(cacheDirectory, folderOf(repository));
  }

  /** Commit that a branch or tag had when it was last fetched; null if it never was. */
  commitOf(revision: string): string | null {
    if (isCommit(revision)) return revision;
    try {
      const commit = readFileSync(this.#reference(revision), 'utf8').trim();
      return isCommit(commit) ? commit : null;
    } catch {
      return null;
    }
  }

  /** Records the commit of a branch or tag. A commit needs no record. */
  record(revision: string, commit: string): void {
    if (revision === commit) return;
    const path = this.#reference(revision);
    mkdirSync(dirname(path), { recursive: true });
    // Readers of the cache see the old commit or the new one.
    const draft = `${path}.${randomUUID()}.incomplete`;
    writeFileSync(draft, commit);
    renameSync(draft, path);
  }

  snapshot(commit: string): string {
    return join(this.directory, 'snapshots', commit);
  }

  /** Place of a file's content. It is there only when it is complete. */
  blob({ digest }: Pick<RepositoryFile, 'digest'>): string {
    return join(this.directory, 'blobs', digest.hex);
  }

  /** Place of a file that is being downloaded. Other clients name theirs otherwise. */
  partial(file: Pick<RepositoryFile, 'digest'>): string {
    return `${this.blob(file)}.trainyard.incomplete`;
  }

  /** Lock of a file that is being downloaded. */
  lock(file: Pick<RepositoryFile, 'digest'>): string {
    return `${this.blob(file)}.trainyard.lock`;
  }

  /** True if its content is there with the right size. */
  hasBlob(file: RepositoryFile): boolean {
    return sizeOf(this.blob(file)) === file.sizeBytes;
  }

  /** Bytes of a file that are there, of an earlier download. */
  partialBytes(file: RepositoryFile): number {
    return Math.min(sizeOf(this.partial(file)) ?? 0, file.sizeBytes);
  }

  /** Files of a snapshot with their sizes, by path. Their digests are not read. */
  snapshotFiles(commit: string): Map<string, RepositoryFile> {
    const directory = this.snapshot(commit);
    const names = readdirSync(directory, { recursive: true, encoding: 'utf8' });
    const files = new Map<string, RepositoryFile>();
    for (const name of names) {
      const sizeBytes = sizeOf(join(directory, name));
      if (sizeBytes === null) continue;
      const path = name.replaceAll(sep, '/');
      files.set(path, { path, sizeBytes, digest: { kind: 'git', hex: '' } });
    }
    return files;
  }

  /** Makes a file visible in a snapshot. Its content must be there. */
  link(file: RepositoryFile, commit: string): void {
    const path = join(this.snapshot(commit), file.path);
    const blob = this.blob(file);
    if (isSameFile(path, blob)) return;
    mkdirSync(dirname(path), { recursive: true });
    rmSync(path, { force: true });
    symlinkSync(relative(dirname(path), blob), path);
  }

  #reference(revision: string): string {
    return join(this.directory, 'refs', revision);
  }
}

/** Folder of a repository: `models--ORG--NAME`. */
function folderOf(repository: string): string {
  return `models--${repository.replaceAll('/', '--')}`;
}

function isSameFile(path: string, other: string): boolean {
  try {
    return realpathSync(path) === realpathSync(other);
  } catch {
    return false;
  }
}

/** Null for a missing file. */
function sizeOf(path: string): number | null {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true ? stat.size : null;
}
