import { type JsonSchema, type OpenApiDocument, type OpenApiOperation } from '@trainyard/protocol';
import { apiDocument } from '@trainyard/server';

/** Every route with its fields, from the service's own `/openapi.json`. */
export function httpPage(): string {
  const document = apiDocument();
  const sections = document.tags.map(({ name, description }) => {
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, { tags }]) => tags.includes(name))
        .map(([method, operation]) => operationText(`${method.toUpperCase()} ${path}`, operation, document)),
    );
    return `## ${name}\n\n${description}\n\n${operations.join('\n')}`;
  });
  return `# HTTP

Every route with its fields, from the document that a running service serves at \`/openapi.json\` (as a page: \`/docs\`). For the meaning of fields together, see
[chat completions](docs/reference/chat-completions.md), [training](docs/reference/training-api.md) and
[reading](docs/reference/read-api.md); for errors, see [errors](docs/reference/errors.md).

${sections.join('\n')}
## Objects

${Object.entries(document.components.schemas)
  .map(([name, schema]) => `### ${name}\n\n${describe(schema)}\n\n${fieldTable(schema)}`)
  .join('\n')}`;
}

function operationText(call: string, operation: OpenApiOperation, document: OpenApiDocument): string {
  const { summary, description, parameters = [], requestBody, responses } = operation;
  const [success] = Object.entries(responses).find(([status]) => status.startsWith('2')) ?? [];
  const statuses = Object.keys(responses).map((status) => (status === success ? `**${status}**` : status));
  const scope = operation['x-scope'];
  const bodies = Object.entries(requestBody?.content ?? {}).map(
    ([mediaType, { schema }]) => `Body, \`${mediaType}\`: ${schemaWords(schema)}`,
  );
  const answers = Object.entries((success === undefined ? undefined : responses[success])?.content ?? {}).map(
    ([mediaType, { schema }]) => `Answer, \`${mediaType}\`: ${schemaWords(schema)}`,
  );
  const body = requestBody?.content['application/json']?.schema;
  const rows = parameters.map(
    ({ name, in: place, required, schema, description: meaning }) =>
      `| \`${name}\` | ${place} | ${schemaWords(schema)}${required ? ', required' : ''} | ${cell(meaning)} |`,
  );
  return [
    `### ${call}`,
    `**${summary}** (${scope === 'public' ? 'no key' : `scope \`${scope}\``})`,
    description,
    rows.length === 0 ? '' : `| parameter | in | type | |\n|---|---|---|---|\n${rows.join('\n')}`,
    [...bodies, ...answers, `Statuses: ${statuses.join(', ')}`].map((line) => `- ${line}`).join('\n'),
    body === undefined || '$ref' in body ? '' : fieldTable(resolved(body, document)),
    '',
  ]
    .filter((part, index, all) => part !== '' || index === all.length - 1)
    .join('\n\n');
}

function resolved(schema: JsonSchema, document: OpenApiDocument): JsonSchema {
  const { $ref: reference } = schema;
  return typeof reference === 'string' ? (document.components.schemas[nameOf(reference)] ?? {}) : schema;
}

function fieldTable(schema: JsonSchema): string {
  const rows = fieldRows(schema, '');
  return rows.length === 0
    ? `${schemaWords(schema)}\n`
    : `| field | type | |\n|---|---|---|\n${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}\n`;
}

function fieldRows(schema: JsonSchema, above: string): string[][] {
  const required = new Set(schema['required'] as string[] | undefined);
  const fields = (schema['properties'] ?? {}) as Record<string, JsonSchema>;
  return Object.entries(fields).flatMap(([name, field]) => {
    const path = `${above}${name}`;
    const inner = branches(field).find((branch) => 'properties' in branch);
    const own = [`\`${path}\``, `${schemaWords(field)}${required.has(name) ? ', required' : ''}`, describe(field)];
    return [own, ...(inner === undefined ? [] : fieldRows(inner, `${path}.`))];
  });
}

const branches = (schema: JsonSchema): JsonSchema[] => (schema['anyOf'] as JsonSchema[] | undefined) ?? [schema];
const nameOf = (reference: string): string => reference.split('/').at(-1) ?? '';

function describe(schema: JsonSchema): string {
  const own = schema['description'] ?? branches(schema).find((branch) => 'description' in branch)?.['description'];
  return cell(typeof own === 'string' ? own : '');
}

/** Escapes text for a table cell, in which braces and angle brackets must not be markup. */
function cell(text: string): string {
  return text
    .replaceAll('\n', ' ')
    .replaceAll('|', String.raw`\|`)
    .replaceAll('<', '&lt;');
}

function schemaWords(schema: JsonSchema): string {
  return branches(schema).map(typeWords).join(' or ');
}

function typeWords(schema: JsonSchema): string {
  const { $ref: reference, enum: values, items, type, additionalProperties: additional } = schema;
  if (typeof reference === 'string') return `[${nameOf(reference)}](#${nameOf(reference).toLowerCase()})`;
  if ('const' in schema) return `\`${JSON.stringify(schema['const'])}\``;
  if (Array.isArray(values)) return values.map((value) => `\`${JSON.stringify(value)}\``).join(', ');
  if (type === 'array')
    return `list of ${items === undefined ? 'anything' : schemaWords(items as JsonSchema)}${limits(schema)}`;
  if (type === 'object' && typeof additional === 'object' && additional !== null)
    return `map to ${schemaWords(additional as JsonSchema)}`;
  return `${type === undefined ? 'anything' : [type].flat().map(String).join(' or ')}${limits(schema)}`;
}

const LIMITS: Readonly<Record<string, string>> = {
  minimum: '≥',
  maximum: '≤',
  exclusiveMinimum: '&gt;',
  exclusiveMaximum: '&lt;',
  minLength: 'length ≥',
  maxLength: 'length ≤',
  minItems: 'items ≥',
  maxItems: 'items ≤',
};

function limits(schema: JsonSchema): string {
  const found = Object.entries(LIMITS).filter(([keyword]) => keyword in schema);
  return found
    .map(([keyword, sign], index) => `${index === 0 ? ' ' : ', '}${sign} ${String(schema[keyword])}`)
    .join('');
}
