import type { WhitespaceOption } from '../contract/constraint-spec.ts';
import { parseInOrder } from '@trainyard/protocol/json';
import { translateRegex } from './ecma-regex.ts';

/** The whitespace that `capped` allows in a gap: up to four blanks, or a line break and an indentation of up to sixteen. */
export const CAPPED_WHITESPACE = '[ \\t]{1,4}|\\r?\\n[ \\t]{0,16}';

/** A schema within a grammar may also say which texts stand between values, and that no other white space does. */
export type SchemaWhitespace = WhitespaceOption | { kind: 'separators'; item: string; key: string };

/**
 * The white space of a schema within a grammar: `whitespace_flexible: false` of its `x-guidance` with the separators that are given there, as clients write
 * it that read the reply by the same grammar. Capped, where it says nothing of that or would not be JSON.
 */
export function schemaWhitespace(schemaText: string): SchemaWhitespace {
  const guidance = guidanceOf(schemaText);
  const { item_separator: item = ',', key_separator: key = ':' } = guidance;
  const areSeparators =
    typeof item === 'string' &&
    /^[ \t\n\r]*,[ \t\n\r]*$/.test(item) &&
    typeof key === 'string' &&
    /^[ \t\n\r]*:[ \t\n\r]*$/.test(key);
  return guidance['whitespace_flexible'] === false && areSeparators
    ? { kind: 'separators', item, key }
    : { kind: 'capped' };
}

/** Empty for what is no JSON, which is refused where the schema is compiled. */
function guidanceOf(schemaText: string): Record<string, unknown> {
  try {
    const guidance = (parseInOrder(schemaText) as { 'x-guidance'?: unknown } | null)?.['x-guidance'];
    return typeof guidance === 'object' && guidance !== null ? (guidance as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Fields of llguidance's `x-guidance` for one option. */
export function whitespaceGuidance(whitespace: SchemaWhitespace): Record<string, unknown> {
  switch (whitespace.kind) {
    case 'capped':
      return { whitespace_pattern: CAPPED_WHITESPACE };
    case 'none':
      return { whitespace_flexible: false };
    case 'pattern':
      return whitespace.pattern === ''
        ? { whitespace_flexible: false }
        : { whitespace_pattern: translateRegex(whitespace.pattern, 'whitespace_pattern') };
    case 'separators':
      return { whitespace_flexible: false, item_separator: whitespace.item, key_separator: whitespace.key };
    default:
      return whitespace satisfies never;
  }
}
