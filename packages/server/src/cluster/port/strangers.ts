import type { Socket } from 'node:net';

/** Connections of which nobody has shown the secret: above so many, those go that have had time to. */
const MAX_STRANGERS = 1_024;
/** A head comes with its connection; so long it takes on a network that has lost a packet of it. */
const PATIENCE_MS = 1_000;

/** Connections that nobody has signed a request on yet: whoever has no secret cannot hold more of them than a few, nor keep others from coming. */
export class Strangers {
  /** By connection since when; the oldest is the first. */
  readonly #since = new Map<Socket, number>();
  readonly #most: number;
  readonly #patienceMs: number;

  /** @param most default 1,024 @param patienceMs default 1 s */
  constructor(most = MAX_STRANGERS, patienceMs = PATIENCE_MS) {
    this.#most = most;
    this.#patienceMs = patienceMs;
  }

  /** Somebody has come. */
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

  /** It is none any more. */
  remove(socket: Socket): void {
    this.#since.delete(socket);
  }
}
