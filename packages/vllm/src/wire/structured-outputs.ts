import { type EngineError, refusal } from '@trainyard/backend';
import { naming } from '@trainyard/protocol/fields';
import { entriesOf, objectInOrder, parseInOrder, writeInOrder } from '@trainyard/protocol/json';

/** Fields that the spec of a constraint may have: `ConstraintSpec` of the package `constraints`, as data. */
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
    // vLLM accepts the option that closes objects, but only some of its back ends enforce it; all enforce the
    // schema.
    const schema = typeof spec.schema === 'string' ? parseInOrder(spec.schema) : spec.schema;
    return { json: writeInOrder(spec.closesObjects === true ? closed(schema) : schema) };
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

/**
 * Kinds of constraints that vLLM enforces from their specs. Excludes `either`: vLLM cannot express
 * alternatives.
 */
export const CONSTRAINT_KINDS: readonly string[] = Object.keys(WRITERS);

/**
 * Converts a constraint to vLLM's `structured_outputs`.
 * @throws {EngineError} engine.invalid_request for a kind or an option that vLLM would ignore
 */
export function structuredOutputs(spec: { readonly kind: string }): Record<string, unknown> {
  const write = Object.hasOwn(WRITERS, spec.kind) ? WRITERS[spec.kind] : undefined;
  if (write === undefined) throw unheeded(`of the kind ${spec.kind}`);
  return write(spec);
}

/** Refuses rules for whitespace: vLLM allows any by a flag of the server and ignores those of a request. */
function checkWhitespace({ whitespace }: Spec): void {
  if (whitespace !== undefined && whitespace.kind !== 'capped')
    throw unheeded('with rules for whitespace: vLLM takes them and ignores them');
}

function unheeded(what: string): EngineError {
  return refusal(
    'constraint',
    naming`${{ field: 'constraint' }} ${what} is not supported by this sampling backend: remove it`,
  );
}

/**
 * Keywords by the form of their value: one schema, a list of them, or schemas by name. All other values are
 * data.
 */
const ONE = new Set(['additionalProperties', 'items', 'not', 'if', 'then', 'else', 'contains', 'propertyNames']);
const LIST = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems', 'items']);
const NAMED = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);

/** Adds `additionalProperties: false` to objects that list properties without it. */
function closed(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const members = entriesOf(schema).map(([keyword, value]): [string, unknown] => {
    if (LIST.has(keyword) && Array.isArray(value)) return [keyword, value.map(closed)];
    if (ONE.has(keyword)) return [keyword, closed(value)];
    if (NAMED.has(keyword) && isObject(value))
      return [keyword, objectInOrder(entriesOf(value).map(([name, one]) => [name, closed(one)]))];
    return [keyword, value];
  });
  const lists = isObject(schema['properties']) || isObject(schema['patternProperties']);
  const isOpen = (schema['additionalProperties'] ?? null) === null;
  return { ...Object.fromEntries(members), ...(lists && isOpen ? { additionalProperties: false } : {}) };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
