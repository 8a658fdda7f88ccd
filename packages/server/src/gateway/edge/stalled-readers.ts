import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import type { FastifyInstance } from 'fastify';

/** Interval of checks of responses; shorter for limits of a few seconds. */
const LOOK_MS = 1_000;
const LOOKS_PER_LIMIT = 4;

interface StalledReaderOptions {
  /** Maximum time that a client may read nothing of a waiting answer, ms; 0: no limit. */
  readonly timeoutMs: number;
  /** Called for each ended response. */
  readonly onStalled: (requestId: string) => void;
}

/** An unsent answer, as of the last check. */
interface OpenResponse {
  readonly response: ServerResponse;
  readonly requestId: string;
  mark: string;
  /** Time without progress of its client. */
  stalledMs: number;
}

/**
 * Ends every answer whose client reads nothing for too long, streamed or whole: it would hold memory as long
 * as the connection lasts. Resets the connection, so that the kernel drops its part of the answer, too.
 */
export function endStalledReaders(app: FastifyInstance, { timeoutMs, onStalled }: StalledReaderOptions): void {
  if (timeoutMs === 0) return;
  const open = new Set<OpenResponse>();
  const lookMs = Math.min(LOOK_MS, timeoutMs / LOOKS_PER_LIMIT);
  const look = (): void => {
    for (const item of open) {
      const mark = progressOf(item.response);
      if (mark === null || mark !== item.mark) {
        item.mark = mark ?? '';
        item.stalledMs = 0;
        continue;
      }
      // Counts checks instead of time: a client is not responsible for a stalled process.
      item.stalledMs += lookMs;
      if (item.stalledMs >= timeoutMs) {
        open.delete(item);
        onStalled(item.requestId);
        item.response.socket?.resetAndDestroy();
      }
    }
  };
  const timer = setInterval(look, lookMs).unref();
  app.addHook('onClose', () => clearInterval(timer));
  app.addHook('onRequest', (request, reply, done) => {
    const item = { response: reply.raw, requestId: request.id, mark: '', stalledMs: 0 };
    open.add(item);
    request.end.onEnd(() => open.delete(item));
    done();
  });
}

/**
 * Progress of a client through the sent data. Node counts a write when all of it is out; the handle's queue
 * shrinks with each piece that the kernel takes.
 * @returns null while nothing waits, and for an answer queued after another one of its connection
 */
function progressOf({ socket, writableLength }: ServerResponse): string | null {
  if (socket === null || writableLength === 0) return null;
  const { bytesWritten, writableLength: pending } = socket;
  return `${bytesWritten - pending} ${queueSizeOf(socket)}`;
}

/**
 * Bytes of the current write that the kernel has not taken. `net` has no public name for it and uses it for
 * its own timeouts.
 */
function queueSizeOf(socket: Socket): number {
  return (socket as { _handle?: { writeQueueSize?: number } | null })._handle?.writeQueueSize ?? 0;
}
