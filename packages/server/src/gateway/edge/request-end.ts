import type { Socket } from 'node:net';
import type { ServerResponse } from 'node:http';

import type { FastifyInstance } from 'fastify';

declare module 'fastify' {
  interface FastifyRequest {
    end: RequestEnd;
  }
}

/**
 * Unfinished requests of each connection, by socket: Node does not notify a response that is queued after
 * another one.
 */
const open = new WeakMap<Socket, Set<SocketEnd>>();

/** End of a request: nothing of the request is needed afterwards. */
export interface RequestEnd {
  readonly isOver: boolean;
  /** True if it is over and its answer was not sent completely. */
  readonly isAbandoned: boolean;
  /** Runs `act` once, at the end of the request, or now if it is over. */
  onEnd(act: () => void): void;
}

/**
 * End of a request whose answer is sent, or whose client has left. `onResponse` does not suffice: it does not
 * run if the client left.
 */
class SocketEnd implements RequestEnd {
  readonly #socket: Socket;
  #isOver = false;
  #isAnswered = false;
  #callbacks: (() => void)[] = [];

  constructor(response: ServerResponse, socket: Socket) {
    this.#socket = socket;
    response.once('finish', () => {
      this.#isAnswered = true;
      this.#finish();
    });
    response.once('close', () => this.#finish());
    if (socket.destroyed) {
      this.#isOver = true;
      return;
    }
    const known = open.get(socket);
    if (known !== undefined) {
      known.add(this);
      return;
    }
    const ends = new Set([this as SocketEnd]);
    open.set(socket, ends);
    socket.once('close', () => {
      for (const end of ends) end.#finish();
    });
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get isAbandoned(): boolean {
    return this.#isOver && !this.#isAnswered;
  }

  onEnd(act: () => void): void {
    if (this.#isOver) act();
    else this.#callbacks.push(act);
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    open.get(this.#socket)?.delete(this);
    const callbacks = this.#callbacks;
    this.#callbacks = [];
    for (const act of callbacks) act();
  }
}

/**
 * Gives every request its `end`. Call it before any other hook: an async hook could miss a client that
 * leaves.
 */
export function trackRequestEnds(app: FastifyInstance): void {
  app.decorateRequest('end', null as unknown as SocketEnd);
  app.addHook('onRequest', (request, reply, done) => {
    request.end = new SocketEnd(reply.raw, request.raw.socket);
    done();
  });
}
