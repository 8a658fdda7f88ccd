import { stat } from 'node:fs/promises';
import { hashOf } from './file-hash.ts';

/** Maximum number of files with a cached digest. */
const MAX_FILES = 20_000;

/** File facts that change at every write. The ctime covers a program that restores old times. */
export async function stampOf(path: string): Promise<string> {
  const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
  return `${ino} ${size} ${mtimeNs} ${ctimeNs}`;
}

/** SHA-256 of files by path. A file is read again only when its inode, size, mtime or ctime changed. */
export class DigestCache {
  readonly #known = new Map<string, { readonly stamp: string; readonly sha256: Promise<string> }>();

  /** @throws errors of reading the file */
  async of(path: string): Promise<string> {
    // Taken before reading the file, so the next call sees a change made during the read.
    const stamp = await stampOf(path);
    const known = this.#known.get(path);
    if (known?.stamp === stamp) return await known.sha256;
    const sha256 = hashOf(path).then((hashed) => hashed.sha256);
    this.#known.set(path, { stamp, sha256 });
    sha256.catch(() => this.#known.delete(path));
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_FILES && oldest !== undefined) this.#known.delete(oldest);
    return await sha256;
  }
}
