import { createHash, type Hash } from 'node:crypto';
import { createReadStream, rmSync, statSync } from 'node:fs';
import { type FileHandle, open, rename } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

import { withFileLock } from './file-lock.ts';
import type { CachedRepository } from './hub-cache.ts';
import { causeOf, type HubClient } from './hub-client.ts';
import { HubError } from '../seams/faults/hub-error.ts';
import type { RepositoryFile } from './repository-info.ts';

/** Time without a byte after which a connection counts as broken. */
const STALL_MS = 30_000;
/** Broken connections in a row without a new byte. */
const ATTEMPTS = 5;
const FIRST_PAUSE_MS = 500;

export interface DownloadParts {
  readonly client: HubClient;
  readonly cache: CachedRepository;
  readonly repository: string;
  readonly commit: string;
  readonly signal: AbortSignal;
  /** Called with the bytes of this file that are there. */
  readonly onBytes: (bytes: number) => void;
  /** Default: 30 s. */
  readonly stallMs?: number;
}

/**
 * Downloads a file into the cache, unless it is there. Continues an earlier download, and publishes the file only
 * with the digest that the hub listed, synced.
 * @throws {HubError}
 */
export async function downloadFile(file: RepositoryFile, parts: DownloadParts): Promise<void> {
  const { cache, signal, onBytes } = parts;
  if (!cache.hasBlob(file))
    await withFileLock(cache.lock(file), signal, async () => {
      // Another process may have finished it meanwhile.
      if (!cache.hasBlob(file)) await fetchBlob(file, parts);
    });
  onBytes(file.sizeBytes);
}

async function fetchBlob(file: RepositoryFile, parts: DownloadParts): Promise<void> {
  const { cache } = parts;
  const partial = cache.partial(file);
  const wasResumed = cache.partialBytes(file) > 0;
  const found = await fetchBytes(file, parts);
  if (found !== file.digest.hex) {
    rmSync(partial, { force: true });
    // Bytes of an earlier download may be damaged; a second download of all shows if the hub's are.
    if (wasResumed) return await fetchBlob(file, parts);
    throw new HubError(
      'hub.answer_invalid',
      `${file.path} of ${parts.repository} is damaged: its digest is ${found}, the hub lists ${file.digest.hex}. Nothing of it was kept; retry`,
    );
  }
  await rename(partial, cache.blob(file));
}

/** Leaves all bytes of the file in its partial file, synced. @returns their digest, hexadecimal */
async function fetchBytes(file: RepositoryFile, parts: DownloadParts): Promise<string> {
  const { cache, signal } = parts;
  const path = cache.partial(file);
  if ((sizeOf(path) ?? 0) > file.sizeBytes) rmSync(path);
  const hash = newHash(file);
  let numBytes = await hashFile(path, hash.value);
  const output = await open(path, 'a');
  try {
    for (let failures = 0; numBytes < file.sizeBytes;) {
      signal.throwIfAborted();
      const before = numBytes;
      try {
        numBytes = await appendRest(file, { parts, output, hash, from: before });
        failures = 0;
      } catch (error) {
        if (!(error instanceof BrokenConnection)) throw error;
        numBytes = error.numBytes;
        failures = numBytes > before ? 1 : failures + 1;
        if (failures >= ATTEMPTS)
          throw new HubError(
            'hub.unreachable',
            `The download of ${file.path} broke off ${ATTEMPTS} times (${error.message}) after ${numBytes} of ${file.sizeBytes} bytes: start it again to continue`,
          );
        await delay(FIRST_PAUSE_MS * 2 ** failures, undefined, { signal });
      }
    }
    await output.sync();
  } catch (error) {
    throw diskFullOf(error, file);
  } finally {
    await output.close();
  }
  return hash.value.digest('hex');
}

/** The connection ended early; the bytes so far are kept. */
class BrokenConnection extends Error {
  readonly numBytes: number;
  constructor(message: string, numBytes: number) {
    super(message);
    this.numBytes = numBytes;
  }
}

interface Appending {
  readonly parts: DownloadParts;
  readonly output: FileHandle;
  readonly hash: { value: Hash };
  readonly from: number;
}

/** @returns the number of bytes there. @throws {BrokenConnection} */
async function appendRest(file: RepositoryFile, { parts, output, hash, from }: Appending): Promise<number> {
  const { client, repository, commit, signal, onBytes, stallMs = STALL_MS } = parts;
  const stalled = new AbortController();
  const watchdog = setTimeout(() => stalled.abort(), stallMs);
  let numBytes = from;
  try {
    const at = { repository, revision: commit, path: file.path };
    const response = await client.open(at, { from, signal: AbortSignal.any([signal, stalled.signal]) });
    if (!continuesAt(response, from)) {
      numBytes = 0;
      await output.truncate(0);
      hash.value = newHash(file).value;
      if (response.status === 416) {
        await response.body?.cancel();
        throw new BrokenConnection('the hub has no bytes there', 0);
      }
    }
    for await (const piece of response.body ?? []) {
      watchdog.refresh();
      signal.throwIfAborted();
      if (numBytes + piece.length > file.sizeBytes)
        throw new HubError(
          'hub.answer_invalid',
          `The hub sent more than the ${file.sizeBytes} bytes that it lists for ${file.path} of ${repository}; the download was ended`,
        );
      await output.write(piece);
      hash.value.update(piece);
      numBytes += piece.length;
      onBytes(numBytes);
    }
  } catch (error) {
    signal.throwIfAborted();
    if (stalled.signal.aborted) throw new BrokenConnection(`nothing came for ${stallMs / 1000} s`, numBytes);
    if (error instanceof BrokenConnection || isFinal(error)) throw error;
    throw new BrokenConnection(error instanceof HubError ? error.message : causeOf(error), numBytes);
  } finally {
    clearTimeout(watchdog);
  }
  if (numBytes < file.sizeBytes) throw new BrokenConnection('the answer ended early', numBytes);
  return numBytes;
}

/** A refusal, or an error of the disk: another attempt has the same result. */
function isFinal(error: unknown): boolean {
  if (error instanceof HubError) return error.code !== 'hub.unreachable';
  return (error as NodeJS.ErrnoException).syscall === 'write';
}

/** False if the answer starts at the first byte. */
function continuesAt(response: Response, from: number): boolean {
  if (from === 0) return true;
  const [, start] = /^bytes (\d+)-/.exec(response.headers.get('content-range') ?? '') ?? [];
  return response.status === 206 && Number(start) === from;
}

function newHash({ digest, sizeBytes }: RepositoryFile): { value: Hash } {
  if (digest.kind === 'sha256') return { value: createHash('sha256') };
  return { value: createHash('sha1').update(`blob ${sizeBytes}\0`) };
}

/** Adds the bytes of a file. @returns their number; 0 for a missing file */
async function hashFile(path: string, hash: Hash): Promise<number> {
  if ((sizeOf(path) ?? 0) === 0) return 0;
  let numBytes = 0;
  for await (const piece of createReadStream(path, { highWaterMark: 1 << 20 })) {
    hash.update(piece as Uint8Array);
    numBytes += (piece as Uint8Array).length;
  }
  return numBytes;
}

function sizeOf(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.size ?? null;
}

function diskFullOf(error: unknown, { path }: RepositoryFile): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error;
  return new HubError(
    'hub.disk_full',
    `The disk is full while ${path} is downloaded: free some space and start it again to continue`,
    { cause: error },
  );
}
