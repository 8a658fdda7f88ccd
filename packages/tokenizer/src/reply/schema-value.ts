import { rewriteJsonText } from './json-reader.ts';
import { pythonLiteralJson } from './python-call.ts';
import { pythonJson } from './python-json.ts';

const JSON_TYPES = ['string', 'integer', 'number', 'boolean', 'object', 'array', 'null'] as const;
export type JsonType = (typeof JSON_TYPES)[number];

// Deeper nesting of alternatives does not define the type of a plain value.
const MAX_DEPTH = 8;

/**
 * Types that a JSON schema allows, from `type`, `enum`, `const`, `anyOf`, `oneOf`, `allOf`, `$ref` and keywords
 * of one type; empty if undefined.
 *
 * @param root that references start from
 */
export function schemaTypes(schema: unknown, root: unknown, depth = 0): ReadonlySet<JsonType> {
  if (typeof schema !== 'object' || schema === null || depth > MAX_DEPTH) return new Set();
  const { type, enum: values, anyOf, oneOf, allOf, $ref: reference } = schema as Record<string, unknown>;
  if (type !== undefined)
    return new Set(JSON_TYPES.filter((name) => type === name || (Array.isArray(type) && type.includes(name))));
  if (Array.isArray(values)) return new Set(values.map(typeOfValue));
  if ('const' in schema) return new Set([typeOfValue(schema.const)]);
  if (typeof reference === 'string') return schemaTypes(targetOf(reference, root), root, depth + 1);
  const typesOf = (list: unknown) =>
    (Array.isArray(list) ? list : []).map((part: unknown) => schemaTypes(part, root, depth + 1));
  const alternatives = [...typesOf(anyOf), ...typesOf(oneOf)];
  if (alternatives.length > 0) return new Set(alternatives.flatMap((types) => [...types]));
  const restriction = typesOf(allOf).find((types) => types.size > 0);
  if (restriction !== undefined) return restriction;
  if ('properties' in schema || 'additionalProperties' in schema) return new Set(['object']);
  return new Set('items' in schema || 'prefixItems' in schema ? ['array'] : []);
}

/** Subschema at a JSON pointer from the root. */
function targetOf(reference: string, root: unknown): unknown {
  if (!/^#(?:$|\/)/.test(reference)) return undefined;
  let at = root;
  for (const part of reference.split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as Record<string, unknown>)[key];
  }
  return at;
}

function typeOfValue(value: unknown): JsonType {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return JSON_TYPES.find((name) => name === typeof value) ?? 'string';
}

/**
 * Converts a text to a JSON value of the most specific type that fits; otherwise a string. Lists and objects may
 * be JSON or Python literals, as some templates write them.
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
  // From the text, not the parsed value: large numbers keep their digits.
  if (isInteger || isNumber || isArray || isObject) return rewriteJsonText(trimmed);
  const isLiteral = (types.has('array') && /^[[(]/.test(trimmed)) || (types.has('object') && trimmed.startsWith('{'));
  return (isLiteral ? pythonLiteralJson(trimmed) : null) ?? pythonJson(text);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // not JSON, so plain text
  }
}
