import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import type { FastifyInstance } from 'fastify';

/** How often responses are looked at; shorter for limits of a few seconds. */
const LOOK_MS = 1_000;
const LOOKS_PER_LIMIT = 4;

interface StalledReaderOptions {
  /** How long a client may take no byte of its answer while some wait, ms; 0: for ever. */
  readonly timeoutMs: number;
  /** Called for each response that is ended. */
  readonly onStalled: (requestId: string) => void;
}

/** An answer that is not out, as of the last look. */
interface OpenResponse {
  readonly response: ServerResponse;
  readonly requestId: string;
  mark: string;
  /** How long its client has taken nothing. */
  stalledMs: number;
}

/**
 * Ends every answer whose client takes nothing of it for too long, streams and whole ones: what it holds in memory would be held for as long as the connection is.
 * The connection is reset, so that the kernel drops what it has of the answer too.
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
      // Looks are counted, not the time between them: a client is not to blame for a process that stood still.
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
 * How far a client is with what it was sent. Node counts a write when all of it is out; the queue of its handle shrinks with each piece that the kernel takes.
 *
 * @returns null while nothing waits to be taken, and for an answer behind another one of its connection
 */
function progressOf({ socket, writableLength }: ServerResponse): string | null {
  if (socket === null || writableLength === 0) return null;
  const { bytesWritten, writableLength: pending } = socket;
  return `${bytesWritten - pending} ${queueSizeOf(socket)}`;
}

/** Bytes of the write in progress that the kernel has not taken. `net` has no public name for it and uses it for its own timeouts. */
function queueSizeOf(socket: Socket): number {
  return (socket as { _handle?: { writeQueueSize?: number } | null })._handle?.writeQueueSize ?? 0;
}
