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
 * State of a file with a known digest. It is hashed once: a stamp next to it (inode, size, mtime, ctime,
 * digest) saves the hashing at the next start. A program that changes the file can restore its mtime, but not
 * its ctime.
 *
 * @param {string} path
 * @param {{ sizeBytes: number, sha256: string }} expected
 * @returns {Promise<'verified' | 'missing' | 'wrong_size' | 'wrong_digest'>}
 */
export async function verifyFile(path, expected) {
  const found = await stat(path).catch(() => null);
  if (found === null || !found.isFile()) return 'missing';
  if (found.size !== expected.sizeBytes) return 'wrong_size';
  const text = await stampText(path, expected.sha256);
  if ((await readFile(stampPath(path), 'utf8').catch(() => '')) === text) return 'verified';
  if ((await sha256OfFile(path)) !== expected.sha256) return 'wrong_digest';
  // In a read-only folder (a shared cache) each start only costs a hash.
  await writeStamp(path, text).catch(() => {});
  return 'verified';
}

/** @param {string} path @param {string} sha256 its digest */
async function stampText(path, sha256) {
  const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
  return `${JSON.stringify({ inode: `${ino}`, sizeBytes: Number(size), modifiedNs: `${mtimeNs}`, changedNs: `${ctimeNs}`, sha256 })}\n`;
}

/**
 * Writes the stamp atomically, after the file itself is on disk: after a power cut a stamp must not refer to
 * lost bytes.
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
 * Gives a verified file its final name, after the file is on disk.
 * @param {string} from
 * @param {string} to
 */
export async function renameVerified(from, to) {
  await sync(from, 'r+');
  const stamp = await readFile(stampPath(from), 'utf8').catch(() => null);
  await rename(from, to);
  await rm(stampPath(from), { force: true });
  // The rename changed the ctime. Without a stamp the next start hashes.
  if (stamp !== null) await writeStamp(to, await stampText(to, JSON.parse(stamp).sha256)).catch(() => {});
  if (process.platform !== 'win32') await sync(dirname(to), 'r');
}

/** @param {string} path removes a file and its stamp; neither needs to exist */
export async function removeVerified(path) {
  await Promise.all([rm(path, { force: true }), rm(stampPath(path), { force: true })]);
}
