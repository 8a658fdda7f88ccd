import type { JsonSchema } from '@trainyard/protocol';

import { html, type Html, prose } from '../pages/html.ts';

/** Named schemas of the document. */
export type NamedSchemas = Readonly<Record<string, JsonSchema>>;

/**
 * Fields of an object schema as a table; fields of nested objects follow theirs, by path.
 *
 * @param named also follows references to these, down to two levels: the fields of a request in one place
 */
export function renderFields(schema: JsonSchema, named: NamedSchemas = {}): Html {
  const rows = fieldsOf(resolved(schema, named), { prefix: '', named, depth: 0 });
  if (rows.length === 0) return html`<p class="type">${typeOf(schema)}</p>`;
  return html`<table>
    <thead>
      <tr>
        <th>Field</th>
        <th>Type</th>
        <th>Meaning</th>
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        ({ path, isRequired, field }) =>
          html`<tr>
            <td><code>${path}</code></td>
            <td class="type">${typeOf(field)}${isRequired ? ', required' : ''}</td>
            <td>${meaningOf(field)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

interface Field {
  path: string;
  isRequired: boolean;
  field: JsonSchema;
}

/** References followed below the fields of a request. */
const MAX_DEPTH = 1;

interface Position {
  readonly prefix: string;
  readonly named: NamedSchemas;
  /** Number of references that lead here. */
  readonly depth: number;
}

export function numFieldsOf(schema: JsonSchema, named: NamedSchemas): number {
  return fieldsOf(resolved(schema, named), { prefix: '', named, depth: 0 }).length;
}

/** The named schema of a reference, or the schema itself. */
function resolved(schema: JsonSchema, named: NamedSchemas): JsonSchema {
  const { $ref: reference } = schema;
  return (typeof reference === 'string' ? named[reference.split('/').at(-1) ?? ''] : undefined) ?? schema;
}

function fieldsOf(schema: JsonSchema, { prefix, named, depth }: Position): Field[] {
  const required = new Set(schema['required'] as string[] | undefined);
  const properties = (schema['properties'] ?? {}) as Record<string, JsonSchema>;
  return Object.entries(properties).flatMap(([name, field]): Field[] => {
    const path = `${prefix}${name}`;
    const branches = branchesOf(field);
    const followed = branches.find((branch) => '$ref' in branch && 'properties' in resolved(branch, named));
    const inner = branches.find((branch) => 'properties' in branch);
    const members =
      inner !== undefined
        ? fieldsOf(inner, { prefix: `${path}.`, named, depth })
        : followed !== undefined && depth < MAX_DEPTH
          ? fieldsOf(resolved(followed, named), { prefix: `${path}.`, named, depth: depth + 1 })
          : [];
    return [{ path, isRequired: required.has(name), field }, ...members];
  });
}

/** Alternatives of a schema, those within alternatives too. */
function branchesOf(schema: JsonSchema): JsonSchema[] {
  const branches = schema['anyOf'] as JsonSchema[] | undefined;
  return branches === undefined ? [schema] : branches.flatMap(branchesOf);
}

/** `integer ≥ 1 or null`, with links to named schemas. */
export function typeOf(schema: JsonSchema): Html {
  const types = branchesOf(schema).map(simpleType);
  return html`${types.map((type, index) => (index === 0 ? type : html` or ${type}`))}`;
}

function simpleType(schema: JsonSchema): Html {
  const { $ref: reference, enum: values, items, type } = schema;
  if (typeof reference === 'string') {
    const name = reference.split('/').at(-1) ?? '';
    return html`<a href="#schema-${name}">${name}</a>`;
  }
  if ('const' in schema) return html`<code>${JSON.stringify(schema['const'])}</code>`;
  if (Array.isArray(values))
    return html`${values.map((value, index) => html`${index === 0 ? '' : ' | '}<code>${JSON.stringify(value)}</code>`)}`;
  if (type === 'array')
    return html`list of ${items === undefined ? 'anything' : typeOf(items as JsonSchema)}${limitsOf(schema)}`;
  const additional = schema['additionalProperties'];
  if (type === 'object' && typeof additional === 'object' && additional !== null)
    return html`map to ${typeOf(additional as JsonSchema)}`;
  return html`${type === undefined ? 'anything' : [type].flat().map(String).join(' or ')}${limitsOf(schema)}`;
}

const LIMITS: Readonly<Record<string, string>> = {
  minimum: '≥',
  maximum: '≤',
  exclusiveMinimum: '>',
  exclusiveMaximum: '<',
  minLength: 'length ≥',
  maxLength: 'length ≤',
  minItems: 'items ≥',
  maxItems: 'items ≤',
  pattern: 'matching',
};

function limitsOf(schema: JsonSchema): Html {
  const limits = Object.entries(LIMITS).filter(([keyword]) => keyword in schema && !isOfType(schema[keyword]));
  return html`${limits.map(([keyword, sign], index) => html`${index === 0 ? ' ' : ', '}${sign} ${String(schema[keyword])}`)}`;
}

/** Largest number of a 32-bit float or of an exact integer: says nothing about the field. */
function isOfType(limit: unknown): boolean {
  return typeof limit === 'number' && Math.abs(limit) >= Number.MAX_SAFE_INTEGER;
}

function meaningOf(field: JsonSchema): Html {
  const own = field['description'] ?? branchesOf(field).find((branch) => 'description' in branch)?.['description'];
  return prose(typeof own === 'string' ? own : '');
}
