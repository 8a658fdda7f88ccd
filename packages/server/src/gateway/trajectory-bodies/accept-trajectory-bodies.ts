import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';

import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Blobs } from '@trainyard/store';

import { RequestError } from '../../seams/faults/request-error.ts';
import type { BodyIntake } from '../bodies/body-intake.ts';
import { BodyThread } from './body-thread-client.ts';
import type { BodyBudgets, ByteBudget } from '../bodies/byte-budget.ts';
import {
  ParsedTrajectoryBody,
  TRAJECTORY_BODIES,
  type TrajectoryBody,
  type TrajectoryBodyKind,
} from './trajectory-body.ts';

/** Larger bodies are parsed in another thread. This size takes 10 ms here. */
const INLINE_BYTES = 1_000_000;

interface TrajectoryBodyParts {
  blobs: Blobs;
  intake: BodyIntake;
  bodyBudgets: Pick<BodyBudgets, 'uploads'>;
  log: (line: string) => void;
}

/** Reads bodies with trajectory groups: small ones in this thread, large ones in another. */
export class TrajectoryBodyReader {
  readonly #blobs: Blobs;
  readonly #intake: BodyIntake;
  readonly #thread: BodyThread;
  readonly #budget: ByteBudget;

  constructor(parts: TrajectoryBodyParts) {
    this.#blobs = parts.blobs;
    this.#intake = parts.intake;
    this.#thread = new BodyThread({ blobs: parts.blobs.location }, parts.log);
    this.#budget = parts.bodyBudgets.uploads;
  }

  /** @throws {RequestError} as `IncomingBody` and `ParsedTrajectoryBody.parse` */
  async read<Kind extends TrajectoryBodyKind>(
    request: FastifyRequest,
    payload: Readable,
    kind: Kind,
  ): Promise<TrajectoryBody<Kind>> {
    const limit = request.routeOptions.bodyLimit;
    const incoming = this.#intake.open(request, payload, { limit, budget: this.#budget });
    try {
      const body = await this.#parsed(digested(request, incoming), kind);
      const discard = () => {
        body.discard();
        incoming.giveBack();
      };
      return { summary: body.summary, store: (options, find) => body.store(options, find), discard };
    } catch (error) {
      incoming.giveBack();
      throw error;
    }
  }

  async #parsed<Kind extends TrajectoryBodyKind>(
    chunks: AsyncGenerator<Buffer, undefined>,
    kind: Kind,
  ): Promise<TrajectoryBody<Kind>> {
    const first: Buffer[] = [];
    let numBytes = 0;
    // Manual iteration, because leaving a loop would end the stream, and the rest is read below.
    for (let next = await chunks.next(); ; next = await chunks.next()) {
      if (next.done) return ParsedTrajectoryBody.parse(Buffer.concat(first), kind, async () => this.#blobs);
      first.push(next.value);
      numBytes += next.value.length;
      if (numBytes > INLINE_BYTES) return await this.#thread.read(joined(first, chunks), kind);
    }
  }

  async close(): Promise<void> {
    await this.#thread.close();
  }
}

/** Makes the routes of this scope read their JSON bodies with `reader`; handle them in `withTrajectoryBody`. */
export function acceptTrajectoryBodies(
  scope: FastifyInstance,
  reader: TrajectoryBodyReader,
  kind: TrajectoryBodyKind,
): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('application/json', async (request: FastifyRequest, payload: Readable) => {
    const body = await reader.read(request, payload, kind);
    const received = new ReceivedBody(body);
    request.end.onEnd(() => received.onRequestEnd());
    return received;
  });
  scope.addHook('onRoute', (route) => {
    route.config = { ...route.config, body: TRAJECTORY_BODIES[kind] };
  });
}

/** A body between its parser and its route: the last user frees its memory. */
export class ReceivedBody<Kind extends TrajectoryBodyKind = TrajectoryBodyKind> {
  readonly body: TrajectoryBody<Kind>;
  #isInUse = false;

  constructor(body: TrajectoryBody<Kind>) {
    this.body = body;
  }

  /** A started route continues without its client, because its effect may follow. */
  onRequestEnd(): void {
    if (!this.#isInUse) this.body.discard();
  }

  async use<Result>(act: (body: TrajectoryBody<Kind>) => Promise<Result>): Promise<Result> {
    this.#isInUse = true;
    try {
      return await act(this.body);
    } finally {
      this.body.discard();
    }
  }
}

/**
 * Runs `act` with the body of such a request, which is discarded afterwards.
 * @throws {RequestError} `request.invalid` without a body
 */
export async function withTrajectoryBody<Kind extends TrajectoryBodyKind, Result>(
  request: { body: ReceivedBody<Kind> | undefined },
  act: (body: TrajectoryBody<Kind>) => Promise<Result>,
): Promise<Result> {
  if (request.body !== undefined) return await request.body.use(act);
  throw RequestError.invalid([{ loc: ['body'], msg: 'Field required', type: 'missing' }]);
}

/** Computes the digest of the body if a repeat must be the same. */
async function* digested(request: FastifyRequest, chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer, undefined> {
  const hash = request.headers['idempotency-key'] === undefined ? null : createHash('sha256');
  for await (const chunk of chunks) {
    hash?.update(chunk);
    yield chunk;
  }
  request.bodyDigest = hash?.digest('hex') ?? null;
}

async function* joined(first: readonly Buffer[], rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield* first;
  yield* rest;
}
