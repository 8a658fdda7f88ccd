import { type EngineError, refusal } from '@trainyard/backend';
import { naming } from '@trainyard/protocol/fields';

/** The fields that a spec of a constraint may have: `ConstraintSpec` of the package `constraints`, as data. */
interface Spec {
  readonly kind: string;
  readonly schema?: unknown;
  readonly whitespace?: { readonly kind: string };
  readonly closesObjects?: boolean;
  readonly pattern?: string;
  readonly choices?: readonly string[];
  readonly source?: string;
  readonly tag?: unknown;
}

type Writer = (spec: Spec) => Record<string, unknown>;

const WRITERS: Readonly<Record<string, Writer>> = {
  json_schema: (spec) => {
    checkWhitespace(spec);
    // vLLM takes the option that closes objects and heeds it with some of its back ends only: the schema says it with all.
    const told = (schema: unknown): unknown => (spec.closesObjects === true ? closed(schema) : schema);
    if (typeof spec.schema === 'string' && SORTED_KEY.test(spec.schema)) return { json: inPlace(spec.schema, told) };
    const said = told(typeof spec.schema === 'string' ? JSON.parse(spec.schema) : spec.schema);
    return { json: typeof said === 'object' ? said : JSON.stringify(said) };
  },
  json_object: (spec) => {
    checkWhitespace(spec);
    return { json_object: true };
  },
  regex: ({ pattern }) => ({ regex: pattern }),
  choice: ({ choices }) => ({ choice: choices }),
  grammar: ({ source }) => ({ grammar: source }),
  structural_tag: ({ tag }) => ({ structural_tag: typeof tag === 'string' ? tag : JSON.stringify(tag) }),
};

/** Kinds of constraints that vLLM enforces from their specs. `either` is none of them: it has no word for one of several. */
export const CONSTRAINT_KINDS: readonly string[] = Object.keys(WRITERS);

/**
 * A constraint as vLLM's `structured_outputs`.
 * @throws {EngineError} engine.invalid_request for a kind or an option that it would not heed
 */
export function structuredOutputs(spec: { readonly kind: string }): Record<string, unknown> {
  const write = Object.hasOwn(WRITERS, spec.kind) ? WRITERS[spec.kind] : undefined;
  if (write === undefined) throw unheeded(`of the kind ${spec.kind}`);
  return write(spec);
}

/** The default there is any whitespace, by a flag of the server; what a request asks for it ignores. */
function checkWhitespace({ whitespace }: Spec): void {
  if (whitespace !== undefined && whitespace.kind !== 'capped')
    throw unheeded('with rules for whitespace: vLLM takes them and ignores them');
}

function unheeded(what: string): EngineError {
  return refusal(
    'constraint',
    naming`${{ field: 'constraint' }} ${what} is not supported by what samples here: leave it out`,
  );
}

/** A key that looks like an integer, which objects here sort in front of all others; in a string, too, which costs the longer way and no more. */
const SORTED_KEY = /"(?:\d|\\u003)+"\s*:/;
const STRING = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?/g;

/** JSON with all keys where they are, but for what `change` does to its value. */
function inPlace(text: string, change: (value: unknown) => unknown): string {
  // Behind it no key looks like an integer.
  let mark = '~';
  for (const written = JSON.stringify(JSON.parse(text)); written.includes(mark);) mark += '~';
  const keysOf = (json: string, rename: (key: string) => string): string =>
    json.replace(STRING, (whole: string, string: string, colon: string | undefined) =>
      colon === undefined ? whole : JSON.stringify(rename(JSON.parse(string) as string)) + colon,
    );
  const marked = keysOf(text, (key) => (/^\d+$/.test(key) ? mark + key : key));
  return keysOf(JSON.stringify(change(JSON.parse(marked))), (key) =>
    key.startsWith(mark) ? key.slice(mark.length) : key,
  );
}

/** Keywords by what they hold: one schema, a list of them, or schemas by name. All else of a schema is data. */
const ONE = new Set(['additionalProperties', 'items', 'not', 'if', 'then', 'else', 'contains', 'propertyNames']);
const LIST = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items']);
const NAMED = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);

/** Objects that list properties, and say nothing of others, have no others. */
function closed(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const members = Object.entries(schema).map(([keyword, value]): [string, unknown] => {
    if (LIST.has(keyword) && Array.isArray(value)) return [keyword, value.map(closed)];
    if (ONE.has(keyword)) return [keyword, closed(value)];
    if (NAMED.has(keyword) && isObject(value))
      return [keyword, Object.fromEntries(Object.entries(value).map(([name, one]) => [name, closed(one)]))];
    return [keyword, value];
  });
  const lists = isObject(schema['properties']) || isObject(schema['patternProperties']);
  const isOpen = (schema['additionalProperties'] ?? null) === null;
  return { ...Object.fromEntries(members), ...(lists && isOpen ? { additionalProperties: false } : {}) };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
