import type { ConstraintSpec, WhitespaceOption } from '@trainyard/generation';
import { type ChatCompletionRequest, quoting } from '@trainyard/protocol';

import { toOrderedJson } from '../../../seams/json/ordered-json.ts';
import { asWritten, sourceTextOf } from '../../../seams/json/source-texts.ts';
import { conflict, named } from './conflict.ts';

type OutputSpec = Exclude<ConstraintSpec, { kind: 'either' }>;

export interface OutputConstraint {
  spec: OutputSpec;
  field: 'response_format' | 'structured_outputs';
}

type ConstraintFields = Pick<ChatCompletionRequest, 'response_format' | 'structured_outputs'>;

const KINDS = ['json', 'regex', 'choice', 'grammar', 'json_object', 'structural_tag'] as const;
type Kind = (typeof KINDS)[number];

/**
 * Merges `response_format` into `structured_outputs`, like vLLM: for two constraints of the same kind the
 * former wins, for different kinds neither.
 * @returns null for an unconstrained reply
 * @throws {RequestError} `request.conflict`
 */
export function outputConstraint(body: ConstraintFields): OutputConstraint | null {
  const format = formatConstraint(body);
  const outputs = body.structured_outputs ?? null;
  if (outputs === null) return format;
  const kinds = KINDS.filter((kind) => outputs[kind] !== undefined && outputs[kind] !== null);
  const field = 'structured_outputs';
  const asked = named(field);
  if (kinds.length === 0 && format === null)
    throw conflict(asked, quoting`${asked} must have exactly one of ${KINDS.join(', ')}, got none`);
  const all = new Set<Kind>([...kinds, ...(format === null ? [] : [KIND_OF_SPEC[format.spec.kind]])]);
  if (all.size > 1) {
    const together = format === null ? [] : quoting` together with ${named('response_format')}`;
    const kindsSent = [...all].join(', ');
    throw conflict(asked, [...quoting`${asked}`, ...together, ` must have exactly one kind, got ${kindsSent}`]);
  }
  if (format !== null) return format;
  return { spec: outputsSpec(outputs, kinds[0]!), field };
}

const KIND_OF_SPEC: Readonly<Record<OutputSpec['kind'], Kind>> = {
  json_schema: 'json',
  json_object: 'json_object',
  regex: 'regex',
  choice: 'choice',
  grammar: 'grammar',
  structural_tag: 'structural_tag',
};

function formatConstraint(body: ConstraintFields): OutputConstraint | null {
  const field = 'response_format';
  const format = body.response_format ?? { type: 'text' };
  switch (format.type) {
    case 'text':
      return null;
    case 'json_object':
      return { spec: { kind: 'json_object', whitespace: whitespaceOf(body) }, field };
    case 'json_schema': {
      const schema = format.json_schema?.schema ?? null;
      if (schema === null)
        throw conflict(
          named(field),
          quoting`${named(field)} of type json_schema must come with ${named('response_format.json_schema.schema')}`,
        );
      return { spec: schemaSpec(schema, body), field };
    }
    case 'structural_tag': {
      const { type: _type, json_schema: _schema, ...tag } = format;
      return { spec: { kind: 'structural_tag', tag: tagText(tag) }, field };
    }
    default:
      return format.type satisfies never;
  }
}

/** Source text of the tag, which keeps the order of keys in its schemas. */
function tagText({ format, structures, ...rest }: Readonly<Record<string, unknown>>): string {
  const written = Array.isArray(structures) ? structures.map(writtenStructure) : structures;
  return toOrderedJson({ ...rest, format: asWritten(format), structures: written });
}

function writtenStructure(structure: unknown): unknown {
  if (typeof structure !== 'object' || structure === null || !('schema' in structure)) return structure;
  return { ...structure, schema: asWritten(structure.schema) };
}

function outputsSpec(outputs: NonNullable<ConstraintFields['structured_outputs']>, kind: Kind): OutputSpec {
  const body = { structured_outputs: outputs };
  switch (kind) {
    case 'json':
      return schemaSpec(outputs.json, body);
    case 'json_object':
      if (outputs.json_object !== true)
        throw conflict(
          named('structured_outputs'),
          quoting`${named('structured_outputs.json_object')} must be true, got false`,
        );
      return { kind, whitespace: whitespaceOf(body) };
    case 'regex':
      return { kind, pattern: outputs.regex ?? '' };
    case 'choice':
      if (outputs.choice?.length === 0)
        throw conflict(
          named('structured_outputs'),
          quoting`${named('structured_outputs.choice')} must have at least one choice, got none`,
        );
      return { kind, choices: outputs.choice ?? [] };
    case 'grammar':
      return { kind, source: outputs.grammar ?? '' };
    case 'structural_tag':
      return { kind, tag: outputs.structural_tag };
    default:
      return kind satisfies never;
  }
}

/**
 * Uses the source text if keys that look like integers have an order. Undeclared properties are excluded
 * unless the schema, or the request, allows them, as in vLLM's default engine.
 */
function schemaSpec(schema: unknown, body: ConstraintFields): OutputSpec {
  const closesObjects = body.structured_outputs?.disable_additional_properties ?? true;
  return { kind: 'json_schema', schema: sourceTextOf(schema) ?? schema, whitespace: whitespaceOf(body), closesObjects };
}

function whitespaceOf({ structured_outputs: outputs }: ConstraintFields): WhitespaceOption {
  const pattern = outputs?.whitespace_pattern ?? null;
  if (outputs?.disable_any_whitespace) {
    if (pattern === null) return { kind: 'none' };
    throw conflict(
      named('structured_outputs'),
      quoting`${named('structured_outputs')} must not have both \`disable_any_whitespace\` and a \`whitespace_pattern\``,
    );
  }
  return pattern === null ? { kind: 'capped' } : { kind: 'pattern', pattern };
}
