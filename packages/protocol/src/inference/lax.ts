import type { TObject, TSchema } from 'typebox';
import { ChatCompletionRequestSchema } from './chat-completion.ts';
import { CompletionRequestSchema } from './completion.ts';
import { MessagesRequestSchema } from './messages.ts';
import { ResponsesRequestSchema } from './responses.ts';
import { GenerateTokensRequestSchema } from './token-generation.ts';
import { TokenizeRequestSchema } from './tokenize.ts';

/**
 * Reads values like pydantic's lax mode, on which vLLM clients rely: numeric strings for numbers ("0.5"),
 * integral floats and booleans for integers (1.0, true), and 0, 1, "yes", "off" … for booleans. Applies to
 * the request's own fields and to members of small option objects, but not to messages, prompts and tools.
 * Unreadable values stay unchanged, so that validation reports them.
 *
 * Returns a new object; returns a value that is no object unchanged.
 */
export const normalizeChatCompletionRequest = laxReader(ChatCompletionRequestSchema);
/** See {@link normalizeChatCompletionRequest}. */
export const normalizeCompletionRequest = laxReader(CompletionRequestSchema);
/** See {@link normalizeChatCompletionRequest}. */
export const normalizeTokenizeRequest = laxReader(TokenizeRequestSchema);
/** See {@link normalizeChatCompletionRequest}. */
export const normalizeGenerateTokensRequest = laxReader(GenerateTokensRequestSchema);
/** See {@link normalizeChatCompletionRequest}. */
export const normalizeMessagesRequest = laxReader(MessagesRequestSchema);
/** See {@link normalizeChatCompletionRequest}. */
export const normalizeResponsesRequest = laxReader(ResponsesRequestSchema);

function laxReader(schema: TObject): (body: unknown) => unknown {
  const fields = schema.properties as Record<string, TSchema>;
  return (body) => {
    if (!isObject(body)) return body;
    const normalized: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(body))
      normalized[name] = normalizeField(Object.hasOwn(fields, name) ? fields[name] : undefined, name, value);
    return normalized;
  };
}

/** Integer fields for which vLLM refuses strings. */
const NO_STRING_FORM = new Set(['top_logprobs', 'prompt_logprobs']);
/** Large values that contain texts and no numbers, and lists of ids. */
const TAKEN_AS_IS = new Set(['messages', 'input', 'token_ids', 'prompt', 'tools', 'chat_template_kwargs']);

function normalizeField(schema: TSchema | undefined, name: string, value: unknown): unknown {
  if (schema === undefined || TAKEN_AS_IS.has(name)) return value;
  if (typeof value === 'string' && NO_STRING_FORM.has(name)) return value;
  if (name === 'seed') return normalizeSeed(value);
  return readLax(schema as JsonSchema, value);
}

/** Part of JSON schema that the request's schema uses. */
interface JsonSchema {
  type?: string | string[];
  anyOf?: JsonSchema[];
  properties?: Record<string, JsonSchema>;
  items?: JsonSchema;
  additionalProperties?: JsonSchema | boolean;
}

function readLax(schema: JsonSchema, value: unknown): unknown {
  if (value === null || value === undefined) return value;
  if (schema.anyOf) {
    const branch =
      schema.anyOf.find((candidate) => hasType(candidate, value)) ??
      schema.anyOf.find((candidate) => candidate.type !== 'null');
    return branch ? readLax(branch, value) : value;
  }
  switch (schema.type) {
    case 'integer':
      return readInteger(value);
    case 'number':
      return readNumber(value);
    case 'boolean':
      return readBoolean(value);
    case 'array':
      return Array.isArray(value) && schema.items ? readItems(schema.items, value) : value;
    case 'object':
      return isObject(value) ? readMembers(schema, value) : value;
    default:
      return value;
  }
}

/** Returns the same list if no item changes. */
function readItems(schema: JsonSchema, value: unknown[]): unknown[] {
  const items = value.map((item) => readLax(schema, item));
  return items.every((item, index) => item === value[index]) ? value : items;
}

/** Returns the same object if no member changes. */
function readMembers(schema: JsonSchema, value: Record<string, unknown>): Record<string, unknown> {
  const other = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : {};
  const members = Object.entries(value).map(([key, member]): [string, unknown] => {
    const known = schema.properties && Object.hasOwn(schema.properties, key) ? schema.properties[key] : undefined;
    return [key, readLax(known ?? other, member)];
  });
  return members.every(([key, member]) => member === value[key]) ? value : Object.fromEntries(members);
}

function hasType(schema: JsonSchema, value: unknown): boolean {
  switch (schema.type) {
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isObject(value);
    case 'integer':
    case 'number':
      return typeof value === 'number';
    default:
      return typeof value === schema.type;
  }
}

const NUMERIC = /^[+-]?(\d+(_\d+)*)?(\.\d*)?(e[+-]?\d+)?$/i;

function readNumber(value: unknown): unknown {
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value !== 'string') return value;
  const text = value.trim();
  if (!NUMERIC.test(text) || !/\d/.test(text)) return value;
  const number = Number(text.replaceAll('_', ''));
  return Number.isFinite(number) ? number : value;
}

function readInteger(value: unknown): unknown {
  const number = readNumber(value);
  return typeof number === 'number' && Number.isInteger(number) ? number : value;
}

const TRUE_WORDS = new Set(['1', 'true', 't', 'yes', 'y', 'on']);
const FALSE_WORDS = new Set(['0', 'false', 'f', 'no', 'n', 'off']);

function readBoolean(value: unknown): unknown {
  if (value === 1) return true;
  if (value === 0) return false;
  if (typeof value !== 'string') return value;
  const word = value.toLowerCase();
  return TRUE_WORDS.has(word) ? true : FALSE_WORDS.has(word) ? false : value;
}

/** Numbers of 64 bits have at most 19 digits, and reading a million digits takes seconds. */
const SEED_DIGITS = /^(?:\+|(-))?0*(\d{1,19})$/;

/**
 * Converts a seed outside ±2^53 to a string of digits, to keep all bits; one beyond 64 bits stays unchanged.
 */
function normalizeSeed(value: unknown): unknown {
  const [, sign = '', digits] = (typeof value === 'string' ? SEED_DIGITS.exec(value.trim()) : null) ?? [];
  if (digits !== undefined) {
    const seed = BigInt(sign + digits);
    return seed >= Number.MIN_SAFE_INTEGER && seed <= Number.MAX_SAFE_INTEGER ? Number(seed) : String(seed);
  }
  return readInteger(value);
}

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/**
 * ±2^63 as JavaScript writes it, and so the limit in published schemas: clients that send it mean the last
 * seed.
 */
const WRITTEN_LIMIT = 9_223_372_036_854_776_000n;

/** Seed of a validated request; −1 and null mean none. `'out_of_range'` if it needs more than 64 bits. */
export function parseSeed(seed: number | string | null | undefined): bigint | null | 'out_of_range' {
  if (seed === null || seed === undefined) return null;
  const value = BigInt(seed);
  if (value === WRITTEN_LIMIT) return INT64_MAX;
  if (value === -WRITTEN_LIMIT) return INT64_MIN;
  if (value < INT64_MIN || value > INT64_MAX) return 'out_of_range';
  return value === -1n ? null : value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
