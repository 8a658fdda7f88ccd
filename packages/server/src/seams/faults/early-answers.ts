import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

import type { FastifyInstance } from 'fastify';

/**
 * Limits of reading after an early answer. Most clients write the whole body before they read: a closed
 * connection would reset them and lose the answer.
 */
const MAX_DRAIN_BYTES = 2e9;
const MAX_DRAIN_MS = 60_000;
/** After this idle time, ms, the client is not writing before it reads. */
const MAX_IDLE_MS = 5_000;
/** Reading time after the connection's end was sent, ms: unread bytes would turn the end into a reset. */
const LINGER_MS = 1_000;
const LOOK_EVERY_MS = 100;

const uninvited = new WeakMap<IncomingMessage, ServerResponse>();

/**
 * Makes every answer before the end of the request's body readable: the rest of the body is read and dropped
 * within limits, then the connection is kept or closed. `100 Continue` is sent only once the body is read.
 */
export function answerEarly(app: FastifyInstance): void {
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    uninvited.set(request, response);
    app.server.emit('request', request, response);
  });
  app.addHook('onSend', (_request, reply, payload, done) => {
    drainAfter(reply.raw);
    done(null, payload);
  });
}

export function inviteBody(request: IncomingMessage): void {
  const response = uninvited.get(request);
  uninvited.delete(request);
  response?.writeContinue();
}

/**
 * Reads and drops the rest of a request's body after the answer, whether the connection is kept or closed.
 * Call it before the answer.
 */
export function drainAfter(response: ServerResponse): void {
  const { req: request } = response;
  const { socket } = request;
  if (!isComing(request)) return;
  let isClosing = false;
  // Node calls it after the last answer of a connection. With unread bytes that would cause a reset.
  socket.destroySoon = () => (isClosing = true);
  response.once('finish', () => {
    Reflect.deleteProperty(socket, 'destroySoon');
    drain(request, isClosing);
  });
}

function isComing({ headers, complete }: IncomingMessage): boolean {
  if (complete !== false) return false;
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function drain(request: IncomingMessage, isClosing: boolean): void {
  const { socket } = request;
  if (uninvited.has(request)) return closeInOrder(socket);
  const startedAt = performance.now();
  const startedBytes = socket.bytesRead;
  let lastBytes = startedBytes;
  let lastAt = startedAt;
  const timer = setInterval(() => {
    const now = performance.now();
    if (socket.bytesRead !== lastBytes) [lastBytes, lastAt] = [socket.bytesRead, now];
    const isSpent = now - startedAt > MAX_DRAIN_MS || lastBytes - startedBytes > MAX_DRAIN_BYTES;
    if (isSpent || now - lastAt > MAX_IDLE_MS) finish(true);
  }, LOOK_EVERY_MS);
  const finish = (shouldClose: boolean): void => {
    clearInterval(timer);
    if (shouldClose) closeInOrder(socket);
  };
  request.once('end', () => finish(isClosing));
  request.once('close', () => clearInterval(timer));
  // A reader that gave up may still be attached, and would keep the stream from flowing.
  request.removeAllListeners('readable');
  setImmediate(() => request.resume());
}

/** Ends a connection and briefly drops further bytes: the other side reads the answer instead of a reset. */
export function closeInOrder(socket: Socket): void {
  if (socket.destroyed) return;
  socket.end();
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('close', () => clearTimeout(timer));
}
