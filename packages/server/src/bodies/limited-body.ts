import type { Readable } from 'node:stream';

import { RequestError } from '../request-error.ts';

/** The body as it comes in, up to `limit` bytes. @throws {RequestError} `request.body_too_large` */
export async function* limitedBody(payload: Readable, limit: number): AsyncGenerator<Buffer, undefined> {
  let numBytes = 0;
  // The stream must outlive a refusal: destroying it would close the connection before the answer is out.
  for await (const chunk of payload.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    numBytes += chunk.length;
    if (numBytes > limit) throw bodyTooLarge(limit);
    yield chunk;
  }
}

export function bodyTooLarge(limit: number): RequestError {
  return new RequestError(
    'request.body_too_large',
    `The body is larger than the limit of ${limit} bytes for this route`,
  );
}
