import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type Blobs, FolderBlobs } from '@trainyard/store';

import { RequestError } from '../request-error.ts';
import type { RouteParts } from '../server-parts.ts';
import { BodyThread } from './body-thread-client.ts';
import { ByteBudget } from './byte-budget.ts';
import { bodyTooLarge, limitedBody } from './limited-body.ts';
import {
  ParsedTrajectoryBody,
  TRAJECTORY_BODIES,
  type TrajectoryBody,
  type TrajectoryBodyKind,
} from './trajectory-body.ts';

/** Larger bodies are parsed in another thread. One of this size takes 10 ms here. */
const INLINE_BYTES = 1_000_000;

/**
 * Where bodies with trajectory groups are read: small ones in this thread, large ones in another. What is held of bodies that are still
 * coming in is bounded by the largest one that is accepted; further uploads wait, unread.
 */
export class TrajectoryBodyReader {
  readonly #blobs: Blobs;
  readonly #thread: BodyThread | null;
  readonly #budget: ByteBudget;

  constructor(parts: Pick<RouteParts, 'blobs' | 'log' | 'limits'>) {
    this.#blobs = parts.blobs;
    // Only blobs in a folder can be written from another thread.
    this.#thread =
      parts.blobs instanceof FolderBlobs ? new BodyThread({ blobsFolder: parts.blobs.root }, parts.log) : null;
    this.#budget = new ByteBudget(parts.limits.previewBodyBytes);
  }

  /** @throws {RequestError} `request.body_too_large`, and as `ParsedTrajectoryBody.parse` */
  async read<Kind extends TrajectoryBodyKind>(
    request: FastifyRequest,
    payload: Readable,
    kind: Kind,
  ): Promise<TrajectoryBody<Kind>> {
    const limit = request.routeOptions.bodyLimit;
    const declared = Number(request.headers['content-length'] ?? Number.NaN);
    if (declared > limit) throw bodyTooLarge(limit);
    const chunks = digested(request, limitedBody(payload, limit));
    const first: Buffer[] = [];
    let numBytes = 0;
    // Left by hand, not by the loop: the rest is read on below.
    for (let next = await chunks.next(); ; next = await chunks.next()) {
      if (next.done) return ParsedTrajectoryBody.parse(Buffer.concat(first).toString('utf8'), kind, this.#blobs);
      first.push(next.value);
      numBytes += next.value.length;
      if (numBytes > INLINE_BYTES && this.#thread !== null) break;
    }
    const giveBack = await this.#budget.take(Number.isNaN(declared) ? limit : declared);
    try {
      const body = await this.#thread.read(joined(first, chunks), kind);
      const discard = () => {
        body.discard();
        giveBack();
      };
      return { ...body, discard };
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#thread?.close();
  }
}

/**
 * Makes the routes of this scope read their JSON bodies with `reader`: `request.body` is a `TrajectoryBody`, which is discarded when the
 * answer is out.
 */
export function acceptTrajectoryBodies(
  scope: FastifyInstance,
  reader: TrajectoryBodyReader,
  kind: TrajectoryBodyKind,
): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('application/json', (request: FastifyRequest, payload: Readable) =>
    reader.read(request, payload, kind),
  );
  scope.addHook('onRoute', (route) => {
    route.config = { ...route.config, body: TRAJECTORY_BODIES[kind] };
  });
  scope.addHook('onResponse', async (request) => (request.body as TrajectoryBody | undefined)?.discard());
}

/** The body of a request of such a route. @throws {RequestError} `request.invalid` when it had none */
export function trajectoryBodyOf<Kind extends TrajectoryBodyKind>(request: {
  body: TrajectoryBody<Kind> | undefined;
}): TrajectoryBody<Kind> {
  if (request.body !== undefined) return request.body;
  throw RequestError.invalid([{ loc: ['body'], msg: 'Field required', type: 'missing' }]);
}

/** Keeps the digest of the body for requests whose repeat must be the same. */
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
