import { rewriteJsonText } from './json-reader.ts';
import { pythonJson } from './python-json.ts';

const JSON_TYPES = ['string', 'integer', 'number', 'boolean', 'object', 'array', 'null'] as const;
export type JsonType = (typeof JSON_TYPES)[number];

// More alternatives than this inside each other say nothing about the type of a plain value.
const MAX_DEPTH = 8;

/** The types a JSON schema allows, from `type`, `enum`, `const`, `anyOf`, `oneOf`; empty when it does not say. */
export function schemaTypes(schema: unknown, depth = 0): ReadonlySet<JsonType> {
  if (typeof schema !== 'object' || schema === null || depth > MAX_DEPTH) return new Set();
  const { type, enum: values, anyOf, oneOf } = schema as Record<string, unknown>;
  if (type !== undefined)
    return new Set(JSON_TYPES.filter((name) => type === name || (Array.isArray(type) && type.includes(name))));
  if (Array.isArray(values)) return new Set(values.map(typeOfValue));
  if ('const' in schema) return new Set([typeOfValue(schema.const)]);
  const alternatives = [anyOf, oneOf].flatMap((list) => (Array.isArray(list) ? list : []));
  return new Set(alternatives.flatMap((alternative) => [...schemaTypes(alternative, depth + 1)]));
}

function typeOfValue(value: unknown): JsonType {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return JSON_TYPES.find((name) => name === typeof value) ?? 'string';
}

/**
 * Reads a text as a JSON value of one of these types. The most specific reading wins; text that fits none of them is a
 * string, and so is text whose types are not known. `True` and `None` are read as Python writes them.
 */
export function jsonOfText(text: string, types: ReadonlySet<JsonType>): string {
  const trimmed = text.trim();
  const lower = trimmed.toLowerCase();
  if (types.has('null') && (lower === 'null' || lower === 'none')) return 'null';
  if (types.has('boolean') && (lower === 'true' || lower === 'false')) return lower;
  const parsed = parseJson(trimmed);
  const isInteger = Number.isInteger(parsed) && types.has('integer');
  const isNumber = typeof parsed === 'number' && types.has('number');
  const isArray = Array.isArray(parsed) && types.has('array');
  const isObject = typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed) && types.has('object');
  // Written again from the text, not from what was parsed: large numbers keep their digits.
  return isInteger || isNumber || isArray || isObject ? rewriteJsonText(trimmed) : pythonJson(text);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // no JSON, so a plain text
  }
}
