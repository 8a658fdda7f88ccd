import type { Readable } from 'node:stream';

import type { FastifyRequest } from 'fastify';

import { inviteBody } from '../../seams/faults/early-answers.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import type { ByteBudget, ByteHold } from './byte-budget.ts';

/** Minimum pace of an incoming body. Only time in which the service reads counts. */
export interface BodyPace {
  /** Minimum bytes per window. */
  readonly windowBytes: number;
  readonly windowMs: number;
  /** Time limit of a whole body, ms. */
  readonly timeoutMs: number;
  /** Maximum wait of a body for memory, ms; then it is refused. */
  readonly maxWaitMs: number;
}

/** This much of a body is held without a charge: a connection's buffers hold as much. */
const FREE_BYTES = 65_536;

interface BodyOptions {
  readonly limit: number;
  /** Budget charged while the bytes are held; null = they are not held. */
  readonly budget: ByteBudget | null;
  /** Refusal of a body above the limit. */
  readonly tooLarge?: (limit: number) => RequestError;
}

/**
 * The only reader of bodies: up to a limit, at a minimum pace, and with a budget that is charged for received
 * bytes.
 */
export class BodyIntake {
  readonly #pace: BodyPace;

  constructor(pace: BodyPace) {
    this.#pace = pace;
  }

  /** @throws {RequestError} `request.body_too_large` for such a `Content-Length` */
  open(request: FastifyRequest, payload: Readable, options: BodyOptions): IncomingBody {
    return new IncomingBody(request, payload, options, this.#pace);
  }
}

/** Memory held by a request. */
export interface BodyCharge {
  /**
   * Charges more bytes to the same request, and waits for them if needed.
   * @throws {RequestError} `request.too_many`
   */
  charge(numBytes: number): Promise<void>;
}

/** One incoming body. Its bytes can be read once. */
export class IncomingBody implements AsyncIterable<Buffer>, BodyCharge {
  readonly #request: FastifyRequest;
  readonly #payload: Readable;
  readonly #limit: number;
  readonly #tooLarge: (limit: number) => RequestError;
  readonly #pace: BodyPace;
  readonly #hold: ByteHold | null;
  #isComplete = false;
  #numBytes = 0;
  #windowBytes = 0;
  #windowReadMs = 0;
  #readMs = 0;

  constructor(
    request: FastifyRequest,
    payload: Readable,
    { limit, budget, tooLarge = bodyTooLarge }: BodyOptions,
    pace: BodyPace,
  ) {
    if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(limit);
    this.#request = request;
    this.#payload = payload;
    this.#limit = limit;
    this.#tooLarge = tooLarge;
    this.#pace = pace;
    this.#hold = budget?.open(request.caller?.keyId ?? '') ?? null;
    // An incomplete body ends with its client; a complete one belongs to its reader.
    request.end.onEnd(() => {
      if (!this.#isComplete) this.giveBack();
    });
  }

  /** Returns the body's charge, once, when its bytes are not held any more. */
  giveBack(): void {
    this.#hold?.giveBack();
  }

  /** @throws {RequestError} `request.body_too_large`, `request.timeout`, `request.too_many` */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, undefined> {
    // The stream must outlive a refusal: destroying it would close the connection before the answer is sent.
    inviteBody(this.#request.raw);
    const chunks = this.#payload.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
    for (;;) {
      const next = await this.#inTime(chunks.next());
      if (next.done === true) break;
      const chunk = next.value;
      this.#numBytes += chunk.length;
      this.#windowBytes += chunk.length;
      if (this.#numBytes > this.#limit) throw this.#tooLarge(this.#limit);
      await this.charge(Math.min(chunk.length, this.#numBytes - FREE_BYTES));
      yield chunk;
    }
    this.#isComplete = true;
  }

  async bytes(): Promise<Buffer> {
    const present = this.#present();
    if (present !== null) return present;
    const chunks: Buffer[] = [];
    for await (const chunk of this) chunks.push(chunk);
    return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
  }

  /**
   * Returns a small body that came with the head of its request, as almost all do, without waiting. Null for
   * any other.
   */
  #present(): Buffer | null {
    const { readableLength } = this.#payload;
    if (Number(this.#request.headers['content-length']) !== readableLength || readableLength === 0) return null;
    if (readableLength > Math.min(FREE_BYTES, this.#limit)) return null;
    const chunk: unknown = this.#payload.read(readableLength);
    if (!Buffer.isBuffer(chunk)) return null;
    // The stream's end follows by itself, a turn later.
    this.#payload.resume();
    this.#numBytes = chunk.length;
    this.#isComplete = true;
    return chunk;
  }

  async charge(bytes: number): Promise<void> {
    const hold = this.#hold;
    if (hold === null || bytes <= 0 || hold.grow(bytes)) return;
    const timer = setTimeout(() => hold.giveBack(), this.#pace.maxWaitMs);
    const isTaken = await hold.wait(bytes);
    clearTimeout(timer);
    if (isTaken) return;
    if (this.#request.end.isOver) throw new ClientLeft();
    throw new RequestError(
      'request.too_many',
      `Other request bodies of this key used all of its memory for ${this.#pace.maxWaitMs / 1000} s; send fewer or smaller bodies at a time`,
      { headers: { 'retry-after': '10' } },
    );
  }

  /** Awaits the next chunk; throws the refusal of a client that is too slow. */
  async #inTime(next: Promise<IteratorResult<Buffer>>): Promise<IteratorResult<Buffer>> {
    const { windowMs, windowBytes, timeoutMs } = this.#pace;
    for (;;) {
      const startedAt = performance.now();
      const waitMs = Math.min(windowMs - this.#windowReadMs, timeoutMs - this.#readMs);
      const arrived = await raced(next, Math.max(0, waitMs));
      const elapsedMs = performance.now() - startedAt;
      this.#readMs += elapsedMs;
      this.#windowReadMs += elapsedMs;
      if (arrived !== null) return arrived;
      if (this.#readMs >= timeoutMs) {
        // The pending read fails with the connection.
        next.catch(() => undefined);
        throw tooSlow(`The body was not received within ${timeoutMs / 1000} s`);
      }
      if (this.#windowReadMs < windowMs) continue;
      if (this.#windowBytes < windowBytes) {
        next.catch(() => undefined);
        throw tooSlow(
          `The body arrived too slowly: ${this.#windowBytes} bytes in ${windowMs / 1000} s, the minimum is ${windowBytes}`,
        );
      }
      this.#windowReadMs = 0;
      this.#windowBytes = 0;
    }
  }
}

/** Internal signal; its message has no reader. */
class ClientLeft extends Error {
  override readonly name = 'ClientLeft';
}

function bodyTooLarge(limit: number): RequestError {
  return new RequestError('request.body_too_large', `The body exceeds the limit of ${limit} bytes for this route`);
}

function tooSlow(message: string): RequestError {
  return new RequestError('request.timeout', `${message}; send it again`, { headers: { connection: 'close' } });
}

/** Null after the timeout. */
async function raced<Value>(promise: Promise<Value>, timeoutMs: number): Promise<Value | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, null);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
