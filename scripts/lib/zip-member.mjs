import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { createInflateRaw } from 'node:zlib';

// APPNOTE.TXT 6.3.10 (PKWARE), sections 4.3.7, 4.3.12 and 4.3.16.
const LOCAL_HEADER = { signature: 0x04034b50, bytes: 30 };
const CENTRAL_HEADER = { signature: 0x02014b50, bytes: 46 };
const END_RECORD = { signature: 0x06054b50, bytes: 22, maxCommentBytes: 0xffff };
const ZIP64_MARK = 0xffffffff;
const STORED = 0;
const DEFLATED = 8;

/**
 * Opens one member of a zip archive (such as a Python wheel) as a stream of its uncompressed bytes, without
 * unpacking the rest.
 *
 * Not supported: encryption, archives in several parts, zip64 (members of 4 GiB and more).
 *
 * @param {string} archivePath
 * @param {string} memberName the exact name inside the archive
 * @returns {Promise<{ sizeBytes: number, stream: NodeJS.ReadableStream }>} `sizeBytes` is the uncompressed
 * size from the archive
 * @throws {Error} if the archive is malformed or has no such member
 */
export async function openZipMember(archivePath, memberName) {
  const file = await open(archivePath, 'r');
  try {
    const entry = await findEntry(file, archivePath, memberName);
    const localHeader = await readExactly(file, entry.localHeaderOffset, LOCAL_HEADER.bytes);
    if (localHeader.readUInt32LE(0) !== LOCAL_HEADER.signature) throw malformed(archivePath, 'no local header');
    const dataOffset =
      entry.localHeaderOffset + LOCAL_HEADER.bytes + localHeader.readUInt16LE(26) + localHeader.readUInt16LE(28);
    const range = { start: dataOffset, end: dataOffset + entry.compressedBytes - 1 };
    return { sizeBytes: entry.sizeBytes, stream: dataStream(archivePath, range, entry.method) };
  } finally {
    await file.close();
  }
}

/** @param {string} archivePath @param {{ start: number, end: number }} range @param {number} method */
function dataStream(archivePath, range, method) {
  const raw = createReadStream(archivePath, range);
  if (method === STORED) return raw;
  if (method !== DEFLATED)
    throw malformed(archivePath, `compression method ${method}, which is neither stored nor deflated`);
  const inflate = createInflateRaw();
  raw.on('error', (error) => inflate.destroy(error));
  return raw.pipe(inflate);
}

/** @param {import('node:fs/promises').FileHandle} file @param {string} archivePath @param {string} memberName */
async function findEntry(file, archivePath, memberName) {
  const directory = await readCentralDirectory(file, archivePath);
  for (let offset = 0; offset + CENTRAL_HEADER.bytes <= directory.length;) {
    if (directory.readUInt32LE(offset) !== CENTRAL_HEADER.signature) throw malformed(archivePath, 'no central header');
    const nameBytes = directory.readUInt16LE(offset + 28);
    const nameOffset = offset + CENTRAL_HEADER.bytes;
    if (directory.toString('utf8', nameOffset, nameOffset + nameBytes) === memberName) {
      const compressedBytes = directory.readUInt32LE(offset + 20);
      const sizeBytes = directory.readUInt32LE(offset + 24);
      if (compressedBytes === ZIP64_MARK || sizeBytes === ZIP64_MARK) throw malformed(archivePath, 'a zip64 member');
      return {
        method: directory.readUInt16LE(offset + 10),
        compressedBytes,
        sizeBytes,
        localHeaderOffset: directory.readUInt32LE(offset + 42),
      };
    }
    offset = nameOffset + nameBytes + directory.readUInt16LE(offset + 30) + directory.readUInt16LE(offset + 32);
  }
  throw new Error(`${archivePath} has no member ${memberName}`);
}

/** @param {import('node:fs/promises').FileHandle} file @param {string} archivePath */
async function readCentralDirectory(file, archivePath) {
  const { size } = await file.stat();
  const tailBytes = Math.min(size, END_RECORD.bytes + END_RECORD.maxCommentBytes);
  const tail = await readExactly(file, size - tailBytes, tailBytes);
  for (let offset = tailBytes - END_RECORD.bytes; offset >= 0; offset--) {
    if (tail.readUInt32LE(offset) !== END_RECORD.signature) continue;
    return await readExactly(file, tail.readUInt32LE(offset + 16), tail.readUInt32LE(offset + 12));
  }
  throw malformed(archivePath, 'no end record: it is truncated or not a zip archive');
}

/** @param {import('node:fs/promises').FileHandle} file @param {number} offset @param {number} sizeBytes */
async function readExactly(file, offset, sizeBytes) {
  const buffer = Buffer.alloc(sizeBytes);
  const { bytesRead } = await file.read(buffer, 0, sizeBytes, offset);
  if (bytesRead < sizeBytes) throw new Error(`the archive ends at byte ${offset + bytesRead}, inside a header`);
  return buffer;
}

/** @param {string} archivePath @param {string} found */
function malformed(archivePath, found) {
  return new Error(`cannot read ${archivePath}: it has ${found}`);
}
