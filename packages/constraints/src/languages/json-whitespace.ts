import type { WhitespaceOption } from '../contract/constraint-spec.ts';
import { parseInOrder } from '@trainyard/protocol/json';
import { translateRegex } from './ecma-regex.ts';

/** Up to four blanks, or a line break and an indentation of up to sixteen. */
export const CAPPED_WHITESPACE = '[ \\t]{1,4}|\\r?\\n[ \\t]{0,16}';

/** Whitespace of a schema in a grammar, or fixed separators. */
export type SchemaWhitespace = WhitespaceOption | { kind: 'separators'; item: string; key: string };

/**
 * Whitespace of a schema in a grammar: its `x-guidance` separators if `whitespace_flexible` is false, for
 * clients that parse the reply with the same grammar. Capped by default, or if the result would not be JSON.
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

/** Empty for text that is not JSON, which compiling refuses later. */
function guidanceOf(schemaText: string): Record<string, unknown> {
  try {
    const guidance = (parseInOrder(schemaText) as { 'x-guidance'?: unknown } | null)?.['x-guidance'];
    return typeof guidance === 'object' && guidance !== null ? (guidance as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

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
