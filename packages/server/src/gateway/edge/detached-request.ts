import type { FastifyRequest } from 'fastify';

import type { RequestEnd } from './request-end.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The end of the work that goes on after the answer; null if nothing does. */
    detachedEnd: RequestEnd | null;
  }
}

/** The end of work that goes on after its request was answered. */
export class DetachedEnd implements RequestEnd {
  readonly isAbandoned = false;
  #isOver = false;
  #callbacks: (() => void)[] = [];

  get isOver(): boolean {
    return this.#isOver;
  }

  onEnd(act: () => void): void {
    if (this.#isOver) act();
    else this.#callbacks.push(act);
  }

  /** Without effect after the first time. */
  finish(): void {
    this.#isOver = true;
    const callbacks = this.#callbacks;
    this.#callbacks = [];
    for (const act of callbacks) act();
  }
}

/**
 * The same request with an end of its own. Its place among the requests in flight of its key, and what its body takes of memory, are held until then.
 *
 * @throws of a request that is over, since both were given back: nobody reads it
 */
export function detachRequest(request: FastifyRequest): { request: FastifyRequest; end: DetachedEnd } {
  if (request.end.isOver) throw new DOMException('the client has left', 'AbortError');
  const end = new DetachedEnd();
  request.detachedEnd = end;
  return { request: Object.create(request, { end: { value: end } }) as FastifyRequest, end };
}
