import { createHash } from 'node:crypto';

/** Weights are in large file storage, at another origin; the other files come from the hub itself. */
const STORED_APART = /\.(?:safetensors|gguf|bin|pt|model)$/;

/** Access to the files of a repository. Its list of files is public, unless the repository is private. */
export type HubAccess = 'public' | 'gated' | 'private';

export interface HubFile {
  readonly path: string;
  readonly bytes: Buffer;
  /** Name of its content in git: of the file, or of the pointer to large file storage. */
  readonly oid: string;
  /** SHA-256 of a file in large file storage; null for others. */
  readonly sha256: string | null;
}

/** A repository of the loopback hub: files by commit, and commits by the name of a branch or tag. */
export class HubRepository {
  readonly id: string;
  access: HubAccess;
  readonly #commits = new Map<string, ReadonlyMap<string, HubFile>>();
  readonly #names = new Map<string, string>();

  constructor(id: string, access: HubAccess) {
    this.id = id;
    this.access = access;
  }

  /** Adds a commit with exactly these files, and moves the branch to it. @returns its id, 40 hex digits */
  commit(files: Readonly<Record<string, Uint8Array | string>>, branch = 'main'): string {
    const stored = new Map(
      Object.entries(files)
        .toSorted(([one], [other]) => (one < other ? -1 : 1))
        .map(([path, content]) => [path, fileOf(path, Buffer.from(content as string))]),
    );
    const listing = Array.from(stored.values(), ({ path, oid }) => `${oid} ${path}`).join('\n');
    const commit = createHash('sha1').update(`${this.id}\n${listing}`).digest('hex');
    this.#commits.set(commit, stored);
    this.#names.set(branch, commit);
    return commit;
  }

  /** Commit of a branch, a tag or a commit id; null if there is none. */
  commitOf(revision: string): string | null {
    return this.#names.get(revision) ?? (this.#commits.has(revision) ? revision : null);
  }

  files(commit: string): ReadonlyMap<string, HubFile> {
    return this.#commits.get(commit) ?? new Map();
  }

  /** A file in large file storage; null for an unknown digest. */
  stored(sha256: string): HubFile | null {
    for (const files of this.#commits.values())
      for (const file of files.values()) if (file.sha256 === sha256) return file;
    return null;
  }
}

function fileOf(path: string, bytes: Buffer): HubFile {
  if (!STORED_APART.test(path)) return { path, bytes, oid: gitOid(bytes), sha256: null };
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${sha256}\nsize ${bytes.length}\n`;
  return { path, bytes, oid: gitOid(Buffer.from(pointer)), sha256 };
}

function gitOid(bytes: Buffer): string {
  return createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
}
