import { createWriteStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { connect } from 'node:net';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';

const CONNECT_TIMEOUT_MS = 3_000;
const STALL_TIMEOUT_MS = 30_000;
const ATTEMPTS = 5;

/**
 * Checks within 3 s if a server is listening, so that a host without internet access starts without a long wait.
 * @param {string} url
 * @param {number} [timeoutMs]
 * @returns {Promise<string | null>} null after a connection, else the reason
 */
export async function whyUnreachable(url, timeoutMs = CONNECT_TIMEOUT_MS) {
  const { hostname, port, protocol } = new URL(url);
  return await new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) || (protocol === 'https:' ? 443 : 80) });
    /** @param {string | null} reason */
    const settle = (reason) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(reason);
    };
    const timer = setTimeout(() => settle(`${hostname} did not answer within ${timeoutMs / 1000} s`), timeoutMs);
    socket.on('connect', () => settle(null));
    socket.on('error', (error) =>
      settle(`${hostname} is unreachable (${'code' in error ? String(error.code) : error.message})`),
    );
  });
}

/**
 * Downloads `url` into `path`. Keeps existing bytes and requests the rest with `Range`, after a broken
 * connection and also in a later process. The caller checks the digest: existing bytes may be of another
 * version.
 *
 * @param {{ url: string, path: string, sizeBytes: number, onProgress?: (doneBytes: number) => void,
 * stallTimeoutMs?: number }} options
 * @throws {Error} after 5 attempts without new bytes, or at once for a permanent failure (4xx)
 */
export async function downloadFile({ url, path, sizeBytes, onProgress, stallTimeoutMs = STALL_TIMEOUT_MS }) {
  for (let failures = 0; ;) {
    const before = await sizeOf(path);
    if (before === sizeBytes) return;
    if (before > sizeBytes) await rm(path);
    try {
      await downloadRest({ url, path, sizeBytes, onProgress, stallTimeoutMs });
    } catch (error) {
      if (error instanceof FinalAnswer) throw error;
      failures = (await sizeOf(path)) > before ? 1 : failures + 1;
      if (failures >= ATTEMPTS) throw error;
      continue;
    }
    const after = await sizeOf(path);
    if (after > sizeBytes) throw new Error(`${url} sent more than the expected ${sizeBytes} bytes`);
    if (after < sizeBytes && ++failures >= ATTEMPTS)
      throw new Error(`${url} ended after ${after} of ${sizeBytes} bytes`);
  }
}

class FinalAnswer extends Error {}

/** @param {Required<Omit<Parameters<typeof downloadFile>[0], 'onProgress'>> & { onProgress?: ((doneBytes: number) => void) | undefined }} options */
async function downloadRest({ url, path, sizeBytes, onProgress, stallTimeoutMs }) {
  const stalled = new AbortController();
  const watchdog = setTimeout(
    () => stalled.abort(new Error(`${url} sent nothing for ${stallTimeoutMs / 1000} s`)),
    stallTimeoutMs,
  );
  try {
    const wanted = await sizeOf(path);
    const headers = wanted > 0 ? { range: `bytes=${wanted}-` } : {};
    const response = await fetch(url, { headers, signal: stalled.signal });
    if (response.status === 416) {
      await rm(path, { force: true });
      throw new Error(`${url} has no bytes after ${wanted}`);
    }
    if (response.status >= 400 && response.status < 500 && response.status !== 429) {
      throw new FinalAnswer(`${url} returned HTTP ${response.status}`);
    }
    if (!response.ok || response.body === null) throw new Error(`${url} returned HTTP ${response.status}`);
    // 200 to a Range request: the server starts from byte 0.
    const start = response.status === 206 ? wanted : 0;
    let doneBytes = start;
    const count = new Transform({
      transform(chunk, _encoding, done) {
        watchdog.refresh();
        doneBytes += chunk.length;
        if (doneBytes <= sizeBytes) onProgress?.(doneBytes);
        done(null, chunk);
      },
    });
    const file = createWriteStream(path, { flags: start > 0 ? 'a' : 'w' });
    await pipeline(Readable.fromWeb(response.body), count, file, { signal: stalled.signal });
  } catch (error) {
    throw stalled.signal.aborted ? stalled.signal.reason : error;
  } finally {
    clearTimeout(watchdog);
  }
}

/** @param {string} path */
async function sizeOf(path) {
  return (await stat(path).catch(() => null))?.size ?? 0;
}
