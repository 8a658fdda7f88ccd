import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { parse } from 'secure-json-parse';

import type { BodyIntake } from './body-intake.ts';
import type { BodyBudgets } from './byte-budget.ts';
import { fieldDeeperThan, MAX_JSON_DEPTH, TOO_DEEP } from '../json/json-depth.ts';
import { jsonFaultPosition } from '../json/json-fault.ts';
import { RequestError } from '../faults/request-error.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** SHA-256 of the body as sent, in hex; only for requests with an `Idempotency-Key`. */
    bodyDigest: string | null;
  }
}

/**
 * Parses JSON bodies. A syntax error is reported with its position; an empty body is no body; `__proto__` keys are dropped.
 * Bytes that are no UTF-8 are refused. A top-level `seed` beyond 2^53 becomes a string of its digits, since a number would lose bits.
 */
export function acceptJsonBodies(
  app: FastifyInstance,
  { intake, bodyBudgets }: { intake: BodyIntake; bodyBudgets: Pick<BodyBudgets, 'requests'> },
): void {
  app.decorateRequest('bodyDigest', null);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', async (request: FastifyRequest, payload: Readable) => {
    const incoming = intake.open(request, payload, {
      limit: request.routeOptions.bodyLimit,
      budget: bodyBudgets.requests,
    });
    try {
      const bytes = await incoming.bytes();
      if (request.headers['idempotency-key'] !== undefined)
        request.bodyDigest = createHash('sha256').update(bytes).digest('hex');
      const text = utf8Text(bytes);
      const body = parseJsonBody(text);
      const tooDeep = fieldDeeperThan(body, MAX_JSON_DEPTH);
      if (tooDeep !== null) throw nestingFault(tooDeep);
      // What was parsed is held for as long as the request is, also while that waits for its turn.
      request.end.onEnd(() => incoming.giveBack());
      return keepSeedDigits(body, text);
    } catch (error) {
      incoming.giveBack();
      throw error;
    }
  });
}

function nestingFault(loc: readonly string[]): RequestError {
  return RequestError.invalid([{ loc: [...loc], msg: TOO_DEEP, type: 'recursion_limit' }]);
}

/** The text of a JSON body, which is UTF-8 and nothing else. @throws {RequestError} `request.invalid_json` */
export function utf8Text(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  if (isUtf8(bytes)) return text;
  // What cannot be decoded reads as U+FFFD: there the bytes of the text differ from those that were sent.
  const decoded = Buffer.from(text, 'utf8');
  let position = 0;
  while (bytes[position] === decoded[position]) position += 1;
  const reason = 'it is not UTF-8';
  const items = [{ loc: ['body', position], msg: 'JSON decode error', type: 'json_invalid', ctx: { error: reason } }];
  const message = `The body is not valid JSON, at byte ${position}: ${reason}; JSON is sent in UTF-8`;
  throw new RequestError('request.invalid_json', message, { param: 'body', items });
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
