import type { Socket } from 'node:net';
import type { ServerResponse } from 'node:http';

import type { FastifyInstance } from 'fastify';

declare module 'fastify' {
  interface FastifyRequest {
    /** Whether anybody still waits for the answer. */
    end: RequestEnd;
  }
}

/** Ends of the requests of each connection that are not over; a response that waits behind another one is told nothing by Node. */
const open = new WeakMap<Socket, Set<SocketEnd>>();

/** The end of a request: after it nothing of the request is needed any more. */
export interface RequestEnd {
  readonly isOver: boolean;
  /** Whether it is over without the whole answer having gone out. */
  readonly isAbandoned: boolean;
  /** Runs `act` once, at the end of the request; now when that was. */
  onEnd(act: () => void): void;
}

/**
 * The one moment after which nothing of a request is needed any more: its answer is out, or its client has left. `onResponse` is no such
 * moment, since it does not run for a client that left.
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

  /** Whether it is over without the whole answer having gone out. */
  get isAbandoned(): boolean {
    return this.#isOver && !this.#isAnswered;
  }

  /** Runs `act` once, at the end of the request; now when that was. */
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

/** Gives every request its `end`. Call it before any other hook: what waits may miss a client that leaves. */
export function trackRequestEnds(app: FastifyInstance): void {
  app.decorateRequest('end', null as unknown as SocketEnd);
  app.addHook('onRequest', (request, reply, done) => {
    request.end = new SocketEnd(reply.raw, request.raw.socket);
    done();
  });
}
