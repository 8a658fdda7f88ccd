import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { parse } from 'secure-json-parse';

import type { BodyIntake, BodyRoom } from './body-intake.ts';
import type { BodyBudgets } from './byte-budget.ts';
import { fieldDeeperThan, MAX_JSON_DEPTH, TOO_DEEP } from '../../seams/json/json-depth.ts';
import type {} from '../edge/detached-request.ts';
import { INFINITE, placeOfInfinity } from '../../seams/json/infinite-numbers.ts';
import { jsonFaultPosition } from '../../seams/json/json-fault.ts';
import { MAX_JSON_NAMES, MAX_JSON_VALUES, mayHoldInfinity, measureLargeJson } from '../../seams/json/large-json.ts';
import type { JsonMeasure } from '../../seams/json/json-scan.ts';
import { keepSourceTexts } from '../../seams/json/source-texts.ts';
import { numberLiteralAt } from '../../seams/json/number-literal.ts';
import { RequestError } from '../../seams/faults/request-error.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** SHA-256 of the body as sent, in hex; only for requests with an `Idempotency-Key`. */
    bodyDigest: string | null;
    /** Share of the budget that the JSON body holds, until the request and the work after it have ended. Null before it was read. */
    bodyRoom: BodyRoom | null;
  }
}

/**
 * Parses JSON bodies. A syntax error is reported with its position; an empty body is no body; `__proto__` keys are dropped.
 * Bytes that are no UTF-8 are refused, numbers that are infinite here, and what nests too deeply or holds too many values. A `seed` beyond 2^53, of the body or its `sampling_params`, becomes a string of its digits, since a
 * number would lose bits.
 */
export function acceptJsonBodies(
  app: FastifyInstance,
  { intake, bodyBudgets }: { intake: BodyIntake; bodyBudgets: Pick<BodyBudgets, 'requests'> },
): void {
  app.decorateRequest('bodyDigest', null);
  app.decorateRequest('bodyRoom', null);
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
      const measure = measureLargeJson(text);
      if (measure !== null) refuseTooMany(measure);
      const body = parseJsonBody(text);
      const tooDeep = measure === null || measure.depth > MAX_JSON_DEPTH ? fieldDeeperThan(body, MAX_JSON_DEPTH) : null;
      if (tooDeep !== null) throw nestingFault(tooDeep);
      const infinite = mayHoldInfinity(text) ? placeOfInfinity(body) : null;
      if (infinite !== null) throw infinityFault(infinite);
      // What was parsed is held for as long as the request is, also while that waits for its turn.
      request.end.onEnd(() => (request.detachedEnd ?? request.end).onEnd(() => incoming.giveBack()));
      request.bodyRoom = incoming;
      keepSourceTexts(body, text);
      return keepSeedDigits(body, text);
    } catch (error) {
      incoming.giveBack();
      throw error;
    }
  });
}

function infinityFault(place: readonly (string | number)[]): RequestError {
  return RequestError.invalid([{ loc: ['body', ...place], msg: INFINITE, type: 'finite_number' }]);
}

/** @throws {RequestError} `request.invalid` */
function refuseTooMany({ numValues, numNames }: JsonMeasure): void {
  const refuse = (limit: number, what: string, got: number) =>
    RequestError.invalid([
      { loc: ['body'], msg: `Input should hold at most ${limit} ${what}, got ${got}`, type: 'too_long' },
    ]);
  if (numNames > MAX_JSON_NAMES)
    throw refuse(MAX_JSON_NAMES, 'member names that are not whole numbers, over all of its objects', numNames);
  if (numValues > MAX_JSON_VALUES)
    throw refuse(MAX_JSON_VALUES, 'strings, member names, lists and objects in total', numValues);
}

function nestingFault(loc: readonly string[]): RequestError {
  return RequestError.invalid([{ loc: [...loc], msg: TOO_DEEP, type: 'recursion_limit' }]);
}

const BYTE_ORDER_MARK = 0xfe_ff;

/** The text of a JSON body, which is UTF-8 and nothing else. @throws {RequestError} `request.invalid_json` */
export function utf8Text(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  // A byte order mark says nothing of the body.
  if (isUtf8(bytes)) return text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text;
  // What cannot be decoded reads as U+FFFD: there the bytes of the text differ from those that were sent.
  const decoded = Buffer.from(text, 'utf8');
  let position = 0;
  while (bytes[position] === decoded[position]) position += 1;
  const reason = 'it is not UTF-8';
  const items = [{ loc: ['body', position], msg: 'JSON decode error', type: 'json_invalid', ctx: { error: reason } }];
  const message = `The body is not valid JSON, at byte ${position}: ${reason}; JSON must be UTF-8`;
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

/** Where a seed may stand in a body. */
const SEED_PLACES = [['seed'], ['sampling_params', 'seed']] as const;

/** A seed beyond 2^53 as a string of its digits. */
function keepSeedDigits(body: unknown, text: string): unknown {
  return SEED_PLACES.reduce((kept, place) => withSeedDigits(kept, place, text, place), body);
}

/** @param place of the seed below this value @param wholePlace from the body on */
function withSeedDigits(
  value: unknown,
  [name, ...rest]: readonly string[],
  text: string,
  wholePlace: readonly string[],
): unknown {
  if (name === undefined) return typeof value === 'number' ? seedDigits(value, text, wholePlace) : value;
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return value;
  const member = value[name as keyof typeof value];
  const kept = withSeedDigits(member, rest, text, wholePlace);
  return kept === member ? value : { ...value, [name]: kept };
}

function seedDigits(seed: number, text: string, place: readonly string[]): number | string {
  if (!Number.isInteger(seed) || Number.isSafeInteger(seed)) return seed;
  const literal = numberLiteralAt(text, place);
  if (literal === null) throw new Error(`the number ${seed} was read where none is written`);
  // A fraction or an exponent means the number that it rounds to, as for every reader of JSON.
  if (/^-?\d+$/.test(literal)) return literal;
  // The limit of 64 bits is written so by every client that has no integers of its own.
  return Math.abs(seed) === 2 ** 63 ? String(seed) : String(BigInt(seed));
}
