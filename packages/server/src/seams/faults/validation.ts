import { Ajv, type ErrorObject as AjvError, type ValidateFunction } from 'ajv';
import type { FastifySchemaCompiler, FastifySchema } from 'fastify';
import { didYouMean, type ValidationItem } from '@trainyard/protocol';

import { hasMoreValues } from './json-values.ts';
import { RequestError } from './request-error.ts';

const MAX_ITEMS = 100;
/**
 * For bodies with more values only the first failure is reported: each value can fail in each branch of a
 * union, and a body of 8 MB has millions. All failures of this many values take tens of milliseconds and
 * megabytes.
 */
const MAX_VALUES = 10_000;
/** Longer values are not repeated in the answer. */
const MAX_INPUT_CHARACTERS = 200;

// Verbose: hints read an object's possible names from the schema that failed.
const OPTIONS = { useDefaults: true, removeAdditional: false, strict: false, verbose: true } as const;
// Bodies are not coerced: lenient fields were normalised before. Query strings have no types of their own.
const firstFailureAjv = new Ajv({ ...OPTIONS, allErrors: false });
const allFailuresAjv = new Ajv({ ...OPTIONS, allErrors: true });
const textAjv = new Ajv({ ...OPTIONS, allErrors: true, coerceTypes: true });

/** Compiles a schema at its first request: compiling all would be a third of the work of every start. */
export const compileValidator: FastifySchemaCompiler<FastifySchema> = ({ schema, httpPart }) => {
  const failuresOf = httpPart === 'body' ? bodyFailures(schema) : textFailures(schema);
  const validate: FastifyValidator = (data) => {
    validate.errors = failuresOf(data);
    return validate.errors === null;
  };
  return validate;
};

type FastifyValidator = ((data: unknown) => boolean) & { errors?: AjvError[] | null };

/** Returns the faults of a value; null: none. */
type Failures = (data: unknown) => AjvError[] | null;

function textFailures(schema: FastifySchema): Failures {
  let validate: ValidateFunction | undefined;
  return (data) => {
    validate ??= textAjv.compile(schema);
    return validate(data) ? null : (validate.errors ?? []);
  };
}

/** All failures of a small body; the first of a large one. */
function bodyFailures(schema: object): Failures {
  let first: ValidateFunction | undefined;
  let all: ValidateFunction | undefined;
  return (body) => {
    first ??= firstFailureAjv.compile(schema);
    if (first(body)) return null;
    if (hasMoreValues(body, MAX_VALUES)) return first.errors ?? [];
    all ??= allFailuresAjv.compile(schema);
    all(body);
    return all.errors ?? [];
  };
}

/** Validator for bodies of up to hundreds of MB. Throws `request.invalid` with the first failure. */
export function compileLargeBodyCheck(schema: object): (body: unknown) => void {
  let validate: ValidateFunction | undefined;
  return (body) => {
    validate ??= firstFailureAjv.compile(schema);
    if (!validate(body)) throw RequestError.invalid(toValidationItems(validate.errors ?? [], 'body', body));
  };
}

/** Source of a validated value: the first part of `loc`. */
export type ValidatedPart = 'body' | 'query' | 'path' | 'header';

/**
 * Ajv's errors in pydantic's form: one item per wrong value, also for unions and nullable fields.
 * @param data the validated value; `undefined` = the request had no body
 */
export function toValidationItems(errors: readonly AjvError[], part: ValidatedPart, data: unknown): ValidationItem[] {
  if (data === undefined) return [{ loc: [part], msg: 'Field required', type: 'missing' }];
  const byPath = new Map<string, AjvError[]>();
  for (const error of errors) {
    if (COMBINATORS.has(error.keyword) || expectedTypes(error).every((type) => type === 'null')) continue;
    const path =
      error.keyword === 'required' || error.keyword === 'additionalProperties' || error.propertyName !== undefined
        ? `${error.instancePath}\0${error.params['missingProperty'] ?? error.params['additionalProperty'] ?? error.propertyName}`
        : error.instancePath;
    byPath.set(path, [...(byPath.get(path) ?? []), error]);
    if (byPath.size > MAX_ITEMS) break;
  }
  const items: ValidationItem[] = [];
  for (const [path, group] of byPath) {
    // If a value fits a branch of a union except for its range or its members, only that is reported.
    const isInside = [...byPath.keys()].some(
      (other) => other !== path && other.startsWith(path) && '/\0'.includes(other.charAt(path.length)),
    );
    // A literal text is no useful hint for a value that is not text.
    const isNoText = group.some((error) => error.keyword === 'type' && expectedTypes(error).includes('string'));
    const isBeside = (keyword: string) => (isInside && keyword === 'enum') || (isNoText && keyword === 'const');
    const ranges = group.filter(({ keyword }) => keyword !== 'type' && !isBeside(keyword));
    if (ranges.length > 0) items.push(...ranges.map((error) => toItem(error, part, data)));
    else if (!isInside) items.push(typeItem(group, part, data));
  }
  return items.slice(0, MAX_ITEMS);
}

const COMBINATORS: ReadonlySet<string> = new Set(['anyOf', 'oneOf', 'if', 'propertyNames']);

function expectedTypes(error: AjvError): string[] {
  return error.keyword === 'type' ? [error.params['type']].flat().map(String) : ['value'];
}

const TYPES: Readonly<Record<string, { type: string; noun: string }>> = {
  string: { type: 'string_type', noun: 'a valid string' },
  integer: { type: 'int_type', noun: 'a valid integer' },
  number: { type: 'float_type', noun: 'a valid number' },
  boolean: { type: 'bool_type', noun: 'a valid boolean' },
  array: { type: 'list_type', noun: 'a valid list' },
  object: { type: 'dict_type', noun: 'a valid dictionary' },
};

function typeItem(group: readonly AjvError[], part: ValidatedPart, data: unknown): ValidationItem {
  const types = [...new Set(group.flatMap(expectedTypes))]
    .filter((type) => type !== 'null')
    .map((type) => TYPES[type] ?? { type: 'value_error', noun: type });
  const error = group[0];
  if (!error) throw new Error('a group of errors is never empty');
  const failed = { error, part, data };
  return item(
    failed,
    types[0]?.type ?? 'value_error',
    `Input should be ${types.map((type) => type.noun).join(' or ')}`,
  );
}

function toItem(error: AjvError, part: ValidatedPart, data: unknown): ValidationItem {
  const { keyword, params } = error;
  const failed = { error, part, data };
  const limit = params['limit'] as number;
  switch (keyword) {
    case 'required':
      return {
        loc: [...locOf(error, part, data), params['missingProperty'] as string],
        msg: 'Field required',
        type: 'missing',
      };
    case 'enum':
      return item(failed, 'literal_error', `Input should be ${alternatives(params['allowedValues'] as unknown[])}`);
    case 'const':
      return item(failed, 'literal_error', `Input should be ${alternatives([params['allowedValue']])}`);
    case 'minimum':
      return item(failed, 'greater_than_equal', `Input should be greater than or equal to ${limit}`, {
        ge: limit,
      });
    case 'maximum':
      return item(failed, 'less_than_equal', `Input should be less than or equal to ${limit}`, {
        le: limit,
      });
    case 'exclusiveMinimum':
      return item(failed, 'greater_than', `Input should be greater than ${limit}`, { gt: limit });
    case 'exclusiveMaximum':
      return item(failed, 'less_than', `Input should be less than ${limit}`, { lt: limit });
    case 'minItems':
      return item(failed, 'too_short', `List should have at least ${limit} item${limit === 1 ? '' : 's'}`, {
        min_length: limit,
      });
    case 'maxItems':
      return item(failed, 'too_long', `List should have at most ${limit} item${limit === 1 ? '' : 's'}`, {
        max_length: limit,
      });
    case 'minLength':
      return item(
        failed,
        'string_too_short',
        `String should have at least ${limit} character${limit === 1 ? '' : 's'}`,
        { min_length: limit },
      );
    case 'maxLength':
      return item(failed, 'string_too_long', `String should have at most ${limit} characters`, {
        max_length: limit,
      });
    case 'pattern':
      return item(
        failed,
        'string_pattern_mismatch',
        `${error.propertyName === undefined ? 'String' : `Key "${error.propertyName}"`} should match pattern '${params['pattern']}'`,
        { pattern: params['pattern'] },
      );
    case 'additionalProperties':
      return unknownItem(error, part, data);
    default:
      return item(failed, 'value_error', error.message ?? `Value fails "${keyword}"`);
  }
}

const NOUNS: Readonly<Record<ValidatedPart, string>> = {
  body: 'field',
  query: 'query parameter',
  path: 'part of the path',
  header: 'header',
};

/** Item for an unknown name, with a suggestion: a similar name, or the same name within a member. */
function unknownItem(error: AjvError, part: ValidatedPart, data: unknown): ValidationItem {
  const name = error.params['additionalProperty'] as string;
  const known = propertiesOf(error.parentSchema);
  const holder = Object.entries(known).find(([, member]) => Object.hasOwn(propertiesOf(member), name))?.[0];
  const hint = holder === undefined ? didYouMean(name, Object.keys(known)) : ` (did you mean ${holder}.${name}?)`;
  const names = Object.keys(known).join(', ') || 'none';
  return {
    loc: [...locOf(error, part, data), name],
    msg: `Unknown ${NOUNS[part]}${hint}; known here: ${names}`,
    type: 'extra_forbidden',
  };
}

/** Members of an object's schema, also if it is nullable. */
function propertiesOf(schema: unknown): Readonly<Record<string, unknown>> {
  const { properties, anyOf = [] } = (schema ?? {}) as { properties?: Record<string, unknown>; anyOf?: unknown[] };
  return properties ?? Object.assign({}, ...anyOf.map(propertiesOf));
}

function alternatives(values: readonly unknown[]): string {
  const texts = values.map((value) => (typeof value === 'string' ? `'${value}'` : String(value)));
  return texts.length > 1 ? `${texts.slice(0, -1).join(', ')} or ${texts.at(-1)}` : (texts[0] ?? 'nothing');
}

interface FailedCheck {
  readonly error: AjvError;
  readonly part: ValidatedPart;
  readonly data: unknown;
}

function item(
  { error, part, data }: FailedCheck,
  type: string,
  msg: string,
  ctx?: Record<string, unknown>,
): ValidationItem {
  const input = valueAt(data, pathOf(error));
  return {
    loc: locOf(error, part, data),
    msg,
    type,
    ...(isPrintable(input) ? { input } : {}),
    ...(ctx ? { ctx } : {}),
  };
}

/** Omits lists and objects from the answer: the place is enough, and they may be the whole body. */
function isPrintable(input: unknown): boolean {
  return typeof input === 'string' ? input.length <= MAX_INPUT_CHARACTERS : typeof input !== 'object' || input === null;
}

function pathOf(error: AjvError): string[] {
  return error.instancePath
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Indices into lists are numbers; all other parts are keys. */
function locOf(error: AjvError, part: ValidatedPart, data: unknown): (string | number)[] {
  const path = pathOf(error);
  return [part, ...path.map((key, depth) => (Array.isArray(valueAt(data, path.slice(0, depth))) ? Number(key) : key))];
}

function valueAt(data: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[key] : undefined),
    data,
  );
}
