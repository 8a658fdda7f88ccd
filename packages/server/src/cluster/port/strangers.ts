import type { Socket } from 'node:net';

/** Maximum number of connections without the secret: above it, those past their grace time are closed. */
const MAX_STRANGERS = 1_024;
/** A head comes with its connection; this is its delay after a lost packet. */
const PATIENCE_MS = 1_000;

/**
 * Connections without a signed request so far: a caller without the secret can hold only a few, and cannot
 * block others.
 */
export class Strangers {
  /** Start time of each connection; the oldest is first. */
  readonly #since = new Map<Socket, number>();
  readonly #most: number;
  readonly #patienceMs: number;

  /** @param most default 1,024 @param patienceMs default 1 s */
  constructor(most = MAX_STRANGERS, patienceMs = PATIENCE_MS) {
    this.#most = most;
    this.#patienceMs = patienceMs;
  }

  add(socket: Socket): void {
    const now = performance.now();
    this.#since.set(socket, now);
    socket.once('close', () => this.remove(socket));
    for (const [oldest, since] of this.#since) {
      if (this.#since.size <= this.#most || now - since < this.#patienceMs) return;
      this.remove(oldest);
      oldest.destroy();
    }
  }

  /** Removes a connection that has closed or shown the secret. */
  remove(socket: Socket): void {
    this.#since.delete(socket);
  }
}
