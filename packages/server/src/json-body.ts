import { createHash } from 'node:crypto';

import type { FastifyInstance } from 'fastify';
import { parse } from 'secure-json-parse';

import { fieldDeeperThan, MAX_JSON_DEPTH, TOO_DEEP } from './json-depth.ts';
import { jsonFaultPosition } from './json-fault.ts';
import { RequestError } from './request-error.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** SHA-256 of the body as sent, in hex; only for requests with an `Idempotency-Key`. */
    bodyDigest: string | null;
  }
}

/**
 * Parses JSON bodies. A syntax error is reported with its position; an empty body is no body; `__proto__` keys are dropped.
 * A top-level `seed` beyond 2^53 becomes a string of its digits, since a number would lose bits.
 */
export function acceptJsonBodies(app: FastifyInstance): void {
  app.decorateRequest('bodyDigest', null);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, text: string, done) => {
    if (request.headers['idempotency-key'] !== undefined)
      request.bodyDigest = createHash('sha256').update(text).digest('hex');
    try {
      const body = parseJsonBody(text);
      const tooDeep = fieldDeeperThan(body, MAX_JSON_DEPTH);
      done(tooDeep === null ? null : nestingFault(tooDeep), tooDeep === null ? keepSeedDigits(body, text) : undefined);
    } catch (error) {
      done(error as Error);
    }
  });
}

function nestingFault(loc: readonly string[]): RequestError {
  return RequestError.invalid([{ loc: [...loc], msg: TOO_DEEP, type: 'recursion_limit' }]);
}

/**
 * One JSON body; undefined when there is none.
 *
 * @throws {RequestError} `request.invalid_json`
 */
export function parseJsonBody(text: string): unknown {
  if (text.trim() === '') return undefined;
  try {
    return parse(text, undefined, { protoAction: 'remove', constructorAction: 'remove' });
  } catch (error) {
    throw syntaxFault(error as Error, text);
  }
}

function syntaxFault(error: Error, text: string): RequestError {
  const position = jsonFaultPosition(text);
  const items = [
    { loc: ['body', position], msg: 'JSON decode error', type: 'json_invalid', ctx: { error: error.message } },
  ];
  return new RequestError(
    'request.invalid_json',
    `The body is not valid JSON, at position ${position}: ${error.message}`,
    { param: 'body', items, cause: error },
  );
}

function keepSeedDigits(body: unknown, text: string): unknown {
  if (typeof body !== 'object' || body === null || !('seed' in body)) return body;
  if (typeof body.seed !== 'number' || !Number.isInteger(body.seed) || Number.isSafeInteger(body.seed)) return body;
  // Nested objects may have a `seed` too: the digits are kept by the object they belong to.
  const digitsOf = new Map<unknown, string>();
  const root: unknown = JSON.parse(
    text,
    function (this: unknown, key: string, value: unknown, context?: { source?: string }) {
      if (key === 'seed' && typeof value === 'number' && context?.source !== undefined)
        digitsOf.set(this, context.source);
      return value;
    },
  );
  const digits = digitsOf.get(root);
  return digits !== undefined && /^-?\d+$/.test(digits) ? { ...body, seed: digits } : body;
}
