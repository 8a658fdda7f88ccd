import type { JsonSchema } from '@trainyard/protocol';

import { html, type Html, prose } from '../pages/html.ts';

/** Fields of an object schema as a table; fields of nested objects follow theirs, by path. */
export function renderFields(schema: JsonSchema): Html {
  const rows = fieldsOf(schema, '');
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

function fieldsOf(schema: JsonSchema, prefix: string): Field[] {
  const required = new Set(schema['required'] as string[] | undefined);
  const properties = (schema['properties'] ?? {}) as Record<string, JsonSchema>;
  return Object.entries(properties).flatMap(([name, field]): Field[] => {
    const path = `${prefix}${name}`;
    const inner = branchesOf(field).find((branch) => 'properties' in branch);
    const members = inner === undefined ? [] : fieldsOf(inner, `${path}.`);
    return [{ path, isRequired: required.has(name), field }, ...members];
  });
}

function branchesOf(schema: JsonSchema): JsonSchema[] {
  return (schema['anyOf'] as JsonSchema[] | undefined) ?? [schema];
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
  const limits = Object.entries(LIMITS).filter(([keyword]) => keyword in schema);
  return html`${limits.map(([keyword, sign], index) => html`${index === 0 ? ' ' : ', '}${sign} ${String(schema[keyword])}`)}`;
}

function meaningOf(field: JsonSchema): Html {
  const own = field['description'] ?? branchesOf(field).find((branch) => 'description' in branch)?.['description'];
  return prose(typeof own === 'string' ? own : '');
}
