import { ConstraintError } from '../contract/constraint-error.ts';
import { checkRulesEnd } from './endless-rules.ts';
import { jsonSchemaSource } from './json-schema.ts';
import { schemaWhitespace } from './json-whitespace.ts';
import { larkRecursion } from './lark-recursion.ts';
import { byteLength, checkLimit } from '../contract/limits.ts';

/**
 * Prepares a Lark grammar from a request: each schema after `%json` is checked, and gets capped whitespace and
 * no `x-guidance` except its separators.
 */
export function larkSource(source: string): string {
  checkLimit('grammarBytes', byteLength(source));
  checkLimit(
    'grammarRules',
    source.match(/^[ \t]*[!?_]*[A-Za-z][\w-]*(?:\[[^\]\n]*\])?(?:\.\d+)?[ \t]*:/gm)?.length ?? 0,
  );
  let out = '';
  let rules = ''; // the same without schemas
  let at = 0;
  while (at < source.length) {
    PIECE.lastIndex = at;
    const piece = PIECE.exec(source)?.[0] ?? source[at]!;
    at += piece.length;
    out += piece;
    rules += piece === '%json' ? '""' : piece;
    if (piece !== '%json') continue;
    const blank = /\s*/y;
    blank.lastIndex = at;
    at += blank.exec(source)![0].length;
    const end = endOfJson(source, at);
    const schema = source.slice(at, end);
    out += ` ${jsonSchemaSource(schema, { whitespace: schemaWhitespace(schema), closesObjects: false })} `;
    at = end;
  }
  const recursion = larkRecursion(rules);
  if (recursion !== null) checkRulesEnd('start', recursion);
  return out;
}

/** @throws {ConstraintError} `constraint.invalid` for a blank grammar */
export function checkGrammar(source: string): void {
  if (source.trim() === '') throw new ConstraintError('constraint.invalid', '`grammar` must not be blank');
}

/** A string, a comment, a regular expression, a directive, or a run of anything else. */
const PIECE = /"(?:\\.|[^"\\\n])*"|(?:#|\/\/)[^\n]*|\/(?:\\.|[^/\\\n])+\/|%[a-z]+|[^"#/%]+/y;

function endOfJson(source: string, start: number): number {
  const word = /(?:true|false)\b/y;
  word.lastIndex = start;
  const boolean = word.exec(source);
  if (boolean !== null) return start + boolean[0].length;
  const token = /"(?:\\.|[^"\\])*"|[{}]|[^"{}]+/y;
  token.lastIndex = start;
  let depth = 0;
  for (let match = token.exec(source); match !== null; match = token.exec(source)) {
    if (match[0] === '{') depth++;
    if (match[0] === '}') depth--;
    if (depth === 0) return match[0] === '}' ? token.lastIndex : start;
  }
  throw new ConstraintError('constraint.invalid', 'a JSON schema after %json does not end');
}
