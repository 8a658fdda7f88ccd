import type { IncomingMessage } from 'node:http';

import { digestOfBody } from '../wire/engine-secret.ts';
import { MAX_REQUEST_BYTES, STATUS } from '../wire/engine-wire.ts';

/** A request that is answered only with a status. */
export class Refusal extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/**
 * JSON of a request, checked against the signed digest.
 * @throws {Refusal}
 */
export async function readBody(request: IncomingMessage, digest: string): Promise<unknown> {
  const length = Number(request.headers['content-length'] ?? Number.NaN);
  if (!Number.isSafeInteger(length)) throw new Refusal(STATUS.malformed, 'a body has a Content-Length');
  if (length > MAX_REQUEST_BYTES) throw new Refusal(STATUS.tooLarge, `a body has at most ${MAX_REQUEST_BYTES} bytes`);
  const pieces: Buffer[] = [];
  for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
  const bytes = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces);
  if (digestOfBody(bytes) !== digest) throw new Refusal(STATUS.unauthorised, 'the body is not the one that was signed');
  try {
    return JSON.parse(bytes.toString());
  } catch (error) {
    throw new Refusal(STATUS.malformed, (error as Error).message);
  }
}
