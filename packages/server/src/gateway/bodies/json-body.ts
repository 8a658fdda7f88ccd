import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';

import type { FastifyInstance, FastifyRequest } from 'fastify';
import { parse } from 'secure-json-parse';

import type { BodyIntake, BodyCharge } from './body-intake.ts';
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
    /**
     * Budget share of the JSON body, held until the request and the work after it have ended. Null before it
     * was read.
     */
    bodyCharge: BodyCharge | null;
  }
}

/**
 * Parses JSON bodies. A syntax error is reported with its position; an empty body counts as absent;
 * `__proto__` keys are dropped. Refused are invalid UTF-8, infinite numbers, and bodies that nest too deeply
 * or hold too many values. A `seed` beyond 2^53, of the body or its `sampling_params`, becomes a string of
 * its digits, because a number would lose bits.
 */
export function acceptJsonBodies(
  app: FastifyInstance,
  { intake, bodyBudgets }: { intake: BodyIntake; bodyBudgets: Pick<BodyBudgets, 'requests'> },
): void {
  app.decorateRequest('bodyDigest', null);
  app.decorateRequest('bodyCharge', null);
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
      // Parsed values are held until the end of the request, including its wait for a turn.
      request.end.onEnd(() => (request.detachedEnd ?? request.end).onEnd(() => incoming.giveBack()));
      request.bodyCharge = incoming;
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

/** Text of a JSON body, which must be UTF-8. @throws {RequestError} `request.invalid_json` */
export function utf8Text(bytes: Buffer): string {
  const text = bytes.toString('utf8');
  if (isUtf8(bytes)) return text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text;
  // Invalid bytes read as U+FFFD: there the text's bytes differ from those sent.
  const decoded = Buffer.from(text, 'utf8');
  let position = 0;
  while (bytes[position] === decoded[position]) position += 1;
  const reason = 'it is not UTF-8';
  const items = [{ loc: ['body', position], msg: 'JSON decode error', type: 'json_invalid', ctx: { error: reason } }];
  const message = `The body is not valid JSON, at byte ${position}: ${reason}; JSON must be UTF-8`;
  throw new RequestError('request.invalid_json', message, { param: 'body', items });
}

/**
 * Parses a JSON body; undefined if it is empty.
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

const SEED_PLACES = [['seed'], ['sampling_params', 'seed']] as const;

/** Replaces a seed beyond 2^53 by a string of its digits. */
function keepSeedDigits(body: unknown, text: string): unknown {
  return SEED_PLACES.reduce((kept, place) => withSeedDigits(kept, place, text, place), body);
}

/** @param place of the seed below this value @param wholePlace its place from the body's root */
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
  if (literal === null) throw new Error(`the number ${seed} was read at a place that has none`);
  // A fraction or an exponent means the number it rounds to, as for any JSON parser.
  if (/^-?\d+$/.test(literal)) return literal;
  // Clients without 64-bit integers write the limit of 64 bits like this.
  return Math.abs(seed) === 2 ** 63 ? String(seed) : String(BigInt(seed));
}
