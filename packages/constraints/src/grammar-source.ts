import { ConstraintError } from './constraint-error.ts';
import type { ConstraintSpec } from './constraint-spec.ts';
import { translateRegex } from './ecma-regex.ts';
import { parseGbnf } from './gbnf-grammar.ts';
import { gbnfToLark, numberedRules } from './gbnf-to-lark.ts';
import { jsonSchemaSource } from './json-schema.ts';
import { larkSource } from './lark-source.ts';
import { larkString } from './lark-text.ts';
import { byteLength, checkLimit } from './limits.ts';
import type { GrammarSource } from './llguidance.ts';
import { parseStructuralTag } from './structural-tag.ts';
import { structuralTagToLark } from './structural-tag-to-lark.ts';

/**
 * What llguidance is given for a constraint. All checks that need no compiling are made here.
 *
 * @param resolveToken id of a token named by id or text; throws for one that does not exist
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
      // llguidance puts it between slashes, where nothing would be a comment.
      return spec.pattern === '' ? EMPTY_TEXT : { syntax: 'regex', text: translateRegex(spec.pattern, 'regex') };
    case 'choice':
      return { syntax: 'lark', text: choiceLark(spec.choices) };
    case 'grammar':
      return { syntax: 'lark', text: grammarLark(spec.source) };
    case 'structural_tag':
      return { syntax: 'lark', text: structuralTagToLark(parseStructuralTag(spec.tag), resolveToken) };
    default:
      return spec satisfies never;
  }
}

const EMPTY_TEXT: GrammarSource = { syntax: 'lark', text: 'start: ""\n' };

/** All choices are one terminal: as alternatives of a rule, many of them would not fit into a row of the parser. */
function choiceLark(choices: readonly string[]): string {
  if (choices.length === 0) throw new ConstraintError('constraint.invalid', '`choice` must have a choice at least');
  checkLimit('choices', choices.length);
  checkLimit(
    'choiceBytes',
    choices.reduce((sum, choice) => sum + byteLength(choice), 0),
  );
  if (!choices.every((choice) => choice.isWellFormed())) {
    throw new ConstraintError('constraint.invalid', '`choice` has half a surrogate pair');
  }
  const texts = [...new Set(choices)].filter((choice) => choice !== '');
  if (texts.length === 0) return EMPTY_TEXT.text;
  const empty = choices.includes('') ? ' | ""' : '';
  return `start: CHOICE${empty}\nCHOICE: ${texts.map(larkString).join(' | ')}\n`;
}

function grammarLark(source: string): string {
  if (source.trim() === '') throw new ConstraintError('constraint.invalid', '`grammar` must not be blank');
  if (!source.includes('::=')) return larkSource(source);
  const grammar = parseGbnf(source);
  return gbnfToLark(grammar, numberedRules(grammar, 'start', 'r'));
}
