import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/** Bytes per read, and the pause after each: requests come first. */
const CHUNK_BYTES = 1 << 20;
const PAUSE_MS = 2;

/** SHA-256 of a file (hex), read in the background. */
export async function pacedDigest(path: string, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES, signal })) {
    hash.update(chunk as Buffer);
    await pause(PAUSE_MS, undefined, { signal });
  }
  return hash.digest('hex');
}
