import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';

/** @param {string} path @returns {Promise<string>} sha256 of the file's content, hexadecimal */
async function sha256OfFile(path) {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash);
  return hash.digest('hex');
}

/** @param {string} path */
function stampPath(path) {
  return `${path}.verified.json`;
}

/**
 * Is the file whole? It is hashed once; a stamp beside it (size, time of change, digest) spares the next start the hashing.
 * Whoever changes a byte also changes the time or the size, unless they mean to deceive: the stamp guards against damage, not attack.
 *
 * @param {string} path
 * @param {{ sizeBytes: number, sha256: string }} expected
 * @returns {Promise<'verified' | 'missing' | 'wrong_size' | 'wrong_digest'>}
 */
export async function verifyFile(path, expected) {
  const found = await stat(path).catch(() => null);
  if (found === null || !found.isFile()) return 'missing';
  if (found.size !== expected.sizeBytes) return 'wrong_size';
  const stamp = { sizeBytes: found.size, modifiedMs: found.mtime.getTime(), sha256: expected.sha256 };
  const text = `${JSON.stringify(stamp)}\n`;
  if ((await readFile(stampPath(path), 'utf8').catch(() => '')) === text) return 'verified';
  if ((await sha256OfFile(path)) !== expected.sha256) return 'wrong_digest';
  // A folder that cannot be written (a shared, read-only cache) costs a hash at each start and nothing else.
  await writeStamp(path, text).catch(() => {});
  return 'verified';
}

/**
 * Writes the stamp whole or not at all, once the file itself is on the disk: after a power cut a stamp must not vouch for bytes that are gone.
 * @param {string} path @param {string} text
 */
async function writeStamp(path, text) {
  await sync(path, 'r');
  const draft = `${stampPath(path)}.${process.pid}.new`;
  await writeFile(draft, text, { flush: true });
  await rename(draft, stampPath(path));
}

/** @param {string} path of a file or a folder @param {'r' | 'r+'} flags */
async function sync(path, flags) {
  const file = await open(path, flags);
  await file.sync().finally(() => file.close());
}

/**
 * Gives a verified file its final name: it is on the disk before the name is.
 * @param {string} from
 * @param {string} to
 */
export async function renameVerified(from, to) {
  await sync(from, 'r+');
  await rename(from, to);
  // The time of change survives the renaming, so the stamp stays true. Without one the next start hashes.
  await rename(stampPath(from), stampPath(to)).catch(() => {});
  if (process.platform !== 'win32') await sync(dirname(to), 'r');
}

/** @param {string} path removes a file and its stamp; neither needs to exist */
export async function removeVerified(path) {
  await Promise.all([rm(path, { force: true }), rm(stampPath(path), { force: true })]);
}
