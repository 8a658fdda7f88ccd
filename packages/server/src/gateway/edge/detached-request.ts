import type { FastifyRequest } from 'fastify';

import type { RequestEnd } from './request-end.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** End of the work that continues after the answer; null if there is none. */
    detachedEnd: RequestEnd | null;
  }
}

/** End of work that continues after its request was answered. */
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

  /** Has no effect after the first call. */
  finish(): void {
    this.#isOver = true;
    const callbacks = this.#callbacks;
    this.#callbacks = [];
    for (const act of callbacks) act();
  }
}

/**
 * The same request with a separate end. Its place among its key's requests in flight, and its body's memory,
 * are held until then.
 * @throws if the request is over, because both were given back: its answer has no reader
 */
export function detachRequest(request: FastifyRequest): { request: FastifyRequest; end: DetachedEnd } {
  if (request.end.isOver) throw new DOMException('the client has left', 'AbortError');
  const end = new DetachedEnd();
  request.detachedEnd = end;
  return { request: Object.create(request, { end: { value: end } }) as FastifyRequest, end };
}
