import { entriesOf, objectInOrder, parseInOrder, writeInOrder } from '@trainyard/protocol/json';
import { closedSet, type Followed, uniqueLists } from './closed-set.ts';
import { ConstraintError } from '../contract/constraint-error.ts';
import { namesControl, translateRegex } from './ecma-regex.ts';
import { type SchemaWhitespace, whitespaceGuidance } from './json-whitespace.ts';
import { byteLength, checkLimit } from '../contract/limits.ts';
import { findEndless } from './endless-recursion.ts';
import { isFreeName, namesPattern } from './property-names.ts';
import { SchemaReferences } from './schema-references.ts';
import { stringFormat } from './string-formats.ts';

/**
 * Translates a JSON schema for llguidance, so that everything it accepts is valid.
 *
 * Keywords that llguidance cannot enforce are restated if possible (`uniqueItems` and `propertyNames` over a few
 * listed values), else refused by name. Unknown formats are annotations; patterns are translated; referenced
 * schemas become definitions with plain names; `x-guidance` is replaced. Schemas that no finite text satisfies
 * are refused.
 *
 * Two gaps of llguidance 1.9.1 are closed: escaped keys (`"\u0061"` for `"a"`), and repeated keys counted by
 * `minProperties`.
 */
export function jsonSchemaSource(
  schema: unknown,
  options: { whitespace: SchemaWhitespace; closesObjects: boolean; isRelaxed?: boolean },
): string {
  const parsed = typeof schema === 'string' ? parseSchemaText(schema) : schema;
  const walk = new SchemaWalk(parsed, options);
  const root = walk.document();
  if (root === false) throw new ConstraintError('constraint.unsatisfiable', 'the schema `false` allows nothing');
  if (walk.hasOpenNamedKeys && walk.hasControlLiterals) {
    throw new ConstraintError(
      'constraint.unsupported',
      'control characters in `const`, `enum` or `pattern` are not supported together with objects that allow undeclared keys',
    );
  }
  const guidance = {
    ...whitespaceGuidance(options.whitespace),
    // A key written with escapes counts as undeclared; where that matters, `\u` escapes are forbidden.
    ...(walk.hasOpenNamedKeys ? { json_allowed_escapes: 'nrbtf\\"' } : { json_allow_general_unicode_escapes: true }),
  };
  const text = writeInOrder({ ...(root === true ? {} : root), ...walk.definitions(), 'x-guidance': guidance });
  checkLimit('specBytes', byteLength(text));
  return text;
}

function parseSchemaText(text: string): unknown {
  checkLimit('specBytes', byteLength(text));
  try {
    return parseInOrder(text);
  } catch (error) {
    throw new ConstraintError('constraint.invalid', `the schema is not JSON: ${(error as Error).message}`);
  }
}

type Schema = boolean | Record<string, unknown>;

/** Draft 2020-12 keywords, and earlier ones, that llguidance cannot enforce. */
const UNSUPPORTED_KEYWORDS = new Set([
  'not', 'if', 'then', 'else', 'contains', 'minContains', 'maxContains', 'propertyNames', 'dependentRequired', 'dependentSchemas',
  'dependencies', 'unevaluatedProperties', 'unevaluatedItems', 'uniqueItems', '$dynamicRef', '$recursiveRef', 'extends', 'disallow',
  'divisibleBy',
]); // prettier-ignore

const SCHEMA_LISTS = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems']);
const SCHEMA_MAPS = new Set(['properties']);
const SCHEMAS = new Set(['additionalProperties', 'additionalItems']);
/** The value is the stricter direction. */
const BOUNDS = new Map([
  ['minimum', 'up'],
  ['exclusiveMinimum', 'up'],
  ['maximum', 'down'],
  ['exclusiveMaximum', 'down'],
] as const);
const EXACT = new Set(['enum', 'const', 'multipleOf']);
/** Annotations, which may hold anything; names; and definitions: the copy has its own. */
const DROPPED = new Set([
  'x-guidance', 'default', 'examples', 'description', 'title', '$comment', '$defs', 'definitions', '$id', 'id', '$anchor',
]); // prettier-ignore

/** One pass over a schema; the depth limit bounds its recursion. */
class SchemaWalk {
  hasOpenNamedKeys = false;
  /**
   * True if a given string has characters that JSON can only escape. Without `\\u` escapes llguidance would omit
   * them.
   */
  hasControlLiterals = false;
  readonly #root: unknown;
  readonly #closesObjects: boolean;
  readonly #isRelaxed: boolean;
  readonly #references: SchemaReferences;
  /** Names among the copy's definitions. */
  readonly #definitions = new Map<unknown, { name: string; base: unknown }>();
  readonly #copies: [name: string, schema: Schema][] = [];
  /** Reached schemas and their paths. */
  readonly #places = new Map<Record<string, unknown>, string>();
  readonly #targets = new Map<Record<string, unknown>, unknown>();
  #base: unknown; // the nearest enclosing schema with `$id`
  #numSchemas = 0;
  #numEnumValues = 0;

  constructor(root: unknown, { closesObjects, isRelaxed = false }: { closesObjects: boolean; isRelaxed?: boolean }) {
    this.#root = this.#base = root;
    this.#references = new SchemaReferences(root);
    this.#isRelaxed = isRelaxed;
    this.#closesObjects = closesObjects;
  }

  document(): Schema {
    const root = this.schema(this.#root, '#', 1);
    for (const [target, { name, base }] of this.#definitions) {
      this.#base = base;
      this.#copies.push([name, this.schema(target, `#/$defs/${name}`, 3)]);
    }
    const endless = findEndless(this.#places.keys(), (schema) => this.#targets.get(schema as Record<string, unknown>));
    if (endless === null) return root;
    throw new ConstraintError(
      'constraint.unsatisfiable',
      `no finite text satisfies the schema: it is infinitely recursive (${this.#places.get(endless)})`,
    );
  }

  definitions(): { $defs?: Record<string, Schema> } {
    return this.#copies.length === 0 ? {} : { $defs: Object.fromEntries(this.#copies) };
  }

  /** @param depth objects and arrays around this one, including itself */
  schema(schema: unknown, path: string, depth: number): Schema {
    checkLimit('schemaDepth', depth);
    checkLimit('schemas', ++this.#numSchemas);
    if (typeof schema === 'boolean') return schema;
    if (!isObject(schema)) throw invalid(path, 'a schema must be an object or a boolean');
    const base = this.#base;
    const { $id: id } = schema;
    if (typeof id === 'string' && !id.startsWith('#')) this.#base = schema;
    if (!this.#places.has(schema)) this.#places.set(schema, path);
    const copy = this.#copyOf(schema, path, depth);
    this.#base = base;
    return copy;
  }

  #copyOf(schema: Record<string, unknown>, path: string, depth: number): Schema {
    if (schema['$ref'] !== undefined) this.#targets.set(schema, this.#targetOf(schema['$ref'], `${path}/$ref`));
    const copy: Record<string, unknown> = {};
    for (const [keyword, value] of Object.entries(this.#enforceable(schema))) {
      if (DROPPED.has(keyword) || value === undefined) continue;
      setKey(copy, keyword, this.#keyword(keyword, value, `${path}/${escapePointer(keyword)}`, depth));
    }
    delete copy['uniqueItems']; // false
    if (copy['format'] === undefined) delete copy['format']; // an annotation
    if (this.#closesObjects && (isObject(copy['properties']) || isObject(copy['patternProperties']))) {
      copy['additionalProperties'] ??= false;
    }
    this.#checkObject(copy, path);
    return copy;
  }

  /** Copies a schema without restated keywords, and if relaxed without unenforceable ones. */
  #enforceable(schema: Record<string, unknown>): Record<string, unknown> {
    const result = this.#restated(schema);
    return this.#isRelaxed ? relaxed(result) : result;
  }

  #restated(schema: Record<string, unknown>): Record<string, unknown> {
    let result = schema;
    const format = result['format'] === undefined ? null : stringFormat(result['format']);
    if (format?.kind === 'annotation') result = { ...result, format: undefined };
    if (format?.kind === 'pattern' && result['pattern'] === undefined)
      result = { ...result, type: result['type'] ?? 'string', format: undefined, pattern: format.pattern };
    if (format?.kind === 'pattern' && result['format'] !== undefined) result = { ...result, format: 'uuid' };
    // Generators add the expression to the format. If it uses look-around, the format alone is enforced.
    const { pattern } = result;
    if (
      result['format'] !== undefined &&
      format?.kind !== 'unenforced' &&
      typeof pattern === 'string' &&
      !isTranslatable(pattern)
    )
      result = { ...result, pattern: undefined };
    const followed = (part: unknown) => this.#followed(part);
    if (result['uniqueItems'] === true && result['type'] === 'array') result = uniqueArray(result, followed);
    return result['propertyNames'] === undefined ? result : namedProperties(result, followed);
  }

  #keyword(keyword: string, value: unknown, path: string, depth: number): unknown {
    if (UNSUPPORTED_KEYWORDS.has(keyword) && !(keyword === 'uniqueItems' && value === false)) {
      throw new ConstraintError('constraint.unsupported', `the keyword \`${keyword}\` is not supported (${path})`);
    }
    if (SCHEMAS.has(keyword)) return this.schema(value, path, depth + 1);
    if (SCHEMA_LISTS.has(keyword)) return this.#schemaList(value, path, depth + 1);
    if (SCHEMA_MAPS.has(keyword)) return this.#schemaMap(value, path, depth + 1);
    switch (keyword) {
      case 'items':
        return Array.isArray(value) ? this.#schemaList(value, path, depth + 1) : this.schema(value, path, depth + 1);
      case 'patternProperties':
        return this.#patternMap(value, path, depth + 1);
      case 'enum':
        if (!Array.isArray(value) || value.length === 0) throw invalid(path, '`enum` must be a nonempty list');
        checkLimit('enumValues', (this.#numEnumValues += value.length));
        checkTexts(value, path, depth + 1);
        checkExact(value, path);
        this.#literal(value);
        return value;
      case 'const':
        checkTexts(value, path, depth + 1);
        checkExact(value, path);
        this.#literal(value);
        return value;
      case 'pattern':
        if (typeof value !== 'string') throw invalid(path, '`pattern` must be a string');
        return this.#pattern(value, path);
      case '$ref':
        return this.#definitionOf(this.#targetOf(value, path));
      case 'format':
        if (stringFormat(value).kind === 'unenforced')
          throw new ConstraintError(
            'constraint.unsupported',
            `the format ${JSON.stringify(value)} is not supported (${path})`,
          );
        return value;
      default:
        checkTexts(value, path, depth + 1);
        return this.#annotated(keyword, value, path);
    }
  }

  #annotated(keyword: string, value: unknown, path: string): unknown {
    if (keyword === 'multipleOf') checkExact(value, path);
    const direction = BOUNDS.get(keyword as 'minimum');
    if (direction === undefined || typeof value !== 'number' || inexactNumber(value) === null) return value;
    if (!Number.isFinite(value)) checkExact(value, path);
    // The original bound is between the neighbours of the rounded number.
    return neighbourOf(value, direction);
  }

  #schemaList(value: unknown, path: string, depth: number): Schema[] {
    if (!Array.isArray(value)) throw invalid(path, 'a list of schemas is expected');
    return value.map((item, index) => this.schema(item, `${path}/${index}`, depth + 1));
  }

  #schemaMap(value: unknown, path: string, depth: number): Record<string, Schema> {
    if (!isObject(value)) throw invalid(path, 'an object of schemas is expected');
    return objectInOrder(
      entriesOf(value).map(([key, schema]) => {
        checkText(key, path);
        return [key, this.schema(schema, `${path}/${escapePointer(key)}`, depth + 1)];
      }),
    );
  }

  #patternMap(value: unknown, path: string, depth: number): Record<string, Schema> {
    const map: Record<string, Schema> = {};
    for (const [pattern, schema] of Object.entries(this.#schemaMap(value, path, depth))) {
      const translated = this.#pattern(pattern, `${path}/${escapePointer(pattern)}`);
      if (Object.hasOwn(map, translated)) {
        throw new ConstraintError('constraint.unsupported', `two equal patterns are not supported (${path})`);
      }
      setKey(map, translated, schema);
    }
    return map;
  }

  #pattern(pattern: string, path: string): string {
    const translated = translateRegex(pattern, path);
    this.hasControlLiterals ||= namesControl(translated);
    return translated;
  }

  #literal(value: unknown): void {
    if (typeof value === 'string') this.hasControlLiterals ||= namesControl(value);
    if (typeof value !== 'object' || value === null) return;
    for (const item of Object.values(value)) this.#literal(item);
  }

  #targetOf(reference: unknown, path: string): unknown {
    if (typeof reference !== 'string') throw invalid(path, '`$ref` must be a string');
    checkText(reference, path);
    return this.#references.resolve(reference, path, this.#base);
  }

  #definitionOf(target: unknown): string {
    if (target === this.#root) return '#';
    let definition = this.#definitions.get(target);
    if (definition === undefined) {
      definition = { name: `d${this.#definitions.size}`, base: this.#base };
      this.#definitions.set(target, definition);
    }
    return `#/$defs/${definition.name}`;
  }

  /** Follows a few references only, because a schema may refer to itself. */
  #followed(schema: unknown): unknown {
    let found = schema;
    for (let hops = 0; hops < 8 && isObject(found) && typeof found['$ref'] === 'string'; hops++)
      found = this.#references.find(found['$ref'], this.#base);
    return found;
  }

  #checkObject(schema: Record<string, unknown>, path: string): void {
    const properties = isObject(schema['properties']) ? Object.keys(schema['properties']) : [];
    const required = new Set(Array.isArray(schema['required']) ? schema['required'] : []);
    checkLimit('properties', Math.max(properties.length, required.size));
    checkLimit('optionalProperties', properties.filter((name) => !required.has(name)).length);
    const isOpen = schema['additionalProperties'] !== false;
    const hasNamedKeys = properties.length > 0 || required.size > 0 || isObject(schema['patternProperties']);
    if (isOpen && hasNamedKeys) this.hasOpenNamedKeys = true;
    const least = schema['minProperties'];
    if (typeof least === 'number' && least > required.size + 1 && (isOpen || isObject(schema['patternProperties']))) {
      throw new ConstraintError(
        'constraint.unsupported',
        `\`minProperties\` may be at most one more than the required keys if others are allowed (${path}), got ${least}`,
      );
    }
  }
}

/** Drops unenforceable parts, only in this object. */
function relaxed(schema: Record<string, unknown>): Record<string, unknown> {
  const { oneOf, minProperties: _min, maxProperties: _max, ...others } = schema;
  const kept = Object.entries(others).filter(
    ([keyword, value]) =>
      !UNSUPPORTED_KEYWORDS.has(keyword) &&
      !(EXACT.has(keyword) && inexactNumber(value) !== null) &&
      !(keyword === 'format' && value !== undefined && stringFormat(value).kind === 'unenforced') &&
      !(keyword === 'pattern' && typeof value === 'string' && !isTranslatable(value)),
  );
  if (oneOf !== undefined) kept.push(['anyOf' in others ? 'oneOf' : 'anyOf', oneOf]);
  return Object.fromEntries(kept);
}

function isTranslatable(pattern: string): boolean {
  try {
    translateRegex(pattern, '');
    return true;
  } catch (error) {
    if (error instanceof ConstraintError && error.code === 'constraint.unsupported') return false;
    throw error;
  }
}

/** Restates an array of distinct values if no counting is needed. */
function uniqueArray(schema: Record<string, unknown>, followed: Followed): Record<string, unknown> {
  const { uniqueItems: _, ...others } = schema;
  if (typeof schema['maxItems'] === 'number' && schema['maxItems'] <= 1) return others;
  const lists = uniqueLists(schema, followed);
  // An empty choice would be malformed, while an unsatisfied schema gives a clear error.
  return lists === null || lists.length === 0 ? schema : { enum: lists };
}

/** Restates an object whose keys are listed, follow a pattern, or are free. */
function namedProperties(schema: Record<string, unknown>, followed: Followed): Record<string, unknown> {
  const { propertyNames, additionalProperties = true, ...others } = schema;
  if (isFreeName(propertyNames, followed)) {
    const { propertyNames: _, ...free } = schema;
    return free;
  }
  if (others['properties'] !== undefined || others['patternProperties'] !== undefined) return schema;
  const names = propertyNames === false ? [] : closedSet(propertyNames, followed);
  if (names !== null) {
    const keys = names.filter((name) => typeof name === 'string');
    const properties = objectInOrder(keys.map((name) => [name, additionalProperties]));
    return { ...others, properties, additionalProperties: false };
  }
  const pattern = namesPattern(propertyNames, followed);
  return pattern === null
    ? schema
    : { ...others, patternProperties: objectInOrder([[pattern, additionalProperties]]), additionalProperties: false };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Works also for the key `__proto__`. */
function setKey(target: Record<string, unknown>, key: string, value: unknown): void {
  Object.defineProperty(target, key, { value, enumerable: true, configurable: true, writable: true });
}

/** Depth and texts, including keys, of a value that is not a schema. */
function checkTexts(value: unknown, path: string, depth: number): void {
  if (typeof value === 'string') checkText(value, path);
  if (typeof value !== 'object' || value === null) return;
  checkLimit('schemaDepth', depth);
  for (const [key, item] of Object.entries(value)) {
    checkText(key, path);
    checkTexts(item, path, depth + 1);
  }
}

/** Refuses numbers that may have been rounded (beyond 2^53): a reply could be constrained to a neighbour. */
function checkExact(value: unknown, path: string): void {
  const number = inexactNumber(value);
  if (number === null) return;
  throw new ConstraintError(
    'constraint.unsupported',
    `numbers beyond ±${Number.MAX_SAFE_INTEGER} lose digits and are not supported (${path}), read as ${number}`,
  );
}

/** @param value finite, not 0 */
function neighbourOf(value: number, direction: 'up' | 'down'): number {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const isAwayFromZero = value > 0 === (direction === 'up');
  view.setBigInt64(0, view.getBigInt64(0) + (isAwayFromZero ? 1n : -1n));
  return view.getFloat64(0);
}

/** Looks at any depth; null if none. */
function inexactNumber(value: unknown): number | null {
  if (typeof value === 'number') return Math.abs(value) > Number.MAX_SAFE_INTEGER ? value : null;
  if (typeof value !== 'object' || value === null) return null;
  for (const item of Object.values(value)) {
    const number = inexactNumber(item);
    if (number !== null) return number;
  }
  return null;
}

/** llguidance reads whole characters, as in replies. */
function checkText(text: string, path: string): void {
  if (!text.isWellFormed()) throw invalid(path, 'a text has half a surrogate pair');
}

function escapePointer(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}

function invalid(path: string, reason: string): ConstraintError {
  return new ConstraintError('constraint.invalid', `${reason} (${path})`);
}
