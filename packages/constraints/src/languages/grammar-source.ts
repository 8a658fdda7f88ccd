import { choiceTerminal } from './choice-terminal.ts';
import type { ConstraintSpec } from '../contract/constraint-spec.ts';
import { translateRegex } from './ecma-regex.ts';
import { parseGbnf } from './gbnf-grammar.ts';
import { gbnfToLark, numberedRules } from './gbnf-to-lark.ts';
import { jsonSchemaSource } from './json-schema.ts';
import { checkGrammar, larkSource } from './lark-source.ts';
import type { GrammarSource } from '../llguidance/llguidance.ts';
import { parseStructuralTag, type TagFormat } from './structural-tag.ts';
import { structuralTagToLark } from './structural-tag-to-lark.ts';

/**
 * Includes all checks that need no compiling.
 *
 * @param resolveToken id of a token given by id or text; throws if it does not exist
 */
export function grammarSource(spec: ConstraintSpec, resolveToken: (token: number | string) => number): GrammarSource {
  switch (spec.kind) {
    case 'json_schema':
      return { syntax: 'json_schema', text: jsonSchemaSource(spec.schema, spec) };
    case 'json_object': {
      const { whitespace } = spec;
      return {
        syntax: 'json_schema',
        text: jsonSchemaSource({ type: 'object' }, { whitespace, closesObjects: false }),
      };
    }
    case 'regex':
      // llguidance puts it between slashes, where an empty pattern would be a comment.
      return spec.pattern === '' ? EMPTY_TEXT : { syntax: 'regex', text: translateRegex(spec.pattern, 'regex') };
    case 'choice':
      return { syntax: 'lark', text: choiceLark(spec.choices) };
    case 'grammar':
      return { syntax: 'lark', text: grammarLark(spec.source) };
    case 'structural_tag':
      return { syntax: 'lark', text: structuralTagToLark(parseStructuralTag(spec.tag), resolveToken) };
    case 'either':
      return { syntax: 'lark', text: structuralTagToLark(formatOf(spec), resolveToken) };
    default:
      return spec satisfies never;
  }
}

function formatOf(spec: ConstraintSpec): TagFormat {
  switch (spec.kind) {
    case 'json_object':
      return { kind: 'json_schema', schema: { type: 'object' }, whitespace: spec.whitespace, closesObjects: false };
    case 'structural_tag':
      return parseStructuralTag(spec.tag);
    case 'either':
      return { kind: 'or', elements: spec.options.map(formatOf) };
    case 'json_schema':
    case 'regex':
    case 'choice':
    case 'grammar':
      return spec;
    default:
      return spec satisfies never;
  }
}

const EMPTY_TEXT: GrammarSource = { syntax: 'lark', text: 'start: ""\n' };

function choiceLark(choices: readonly string[]): string {
  const { terminal, hasEmpty } = choiceTerminal(choices);
  if (terminal === null) return EMPTY_TEXT.text;
  return `start: CHOICE${hasEmpty ? ' | ""' : ''}\nCHOICE: ${terminal}\n`;
}

function grammarLark(source: string): string {
  checkGrammar(source);
  if (!source.includes('::=')) return larkSource(source);
  const grammar = parseGbnf(source);
  return gbnfToLark(grammar, numberedRules(grammar, 'start', 'r'));
}
