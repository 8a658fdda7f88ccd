import type { WhitespaceOption } from '../contract/constraint-spec.ts';
import { translateRegex } from './ecma-regex.ts';

/** The whitespace that `capped` allows in a gap: up to four blanks, or a line break and an indentation of up to sixteen. */
export const CAPPED_WHITESPACE = '[ \\t]{1,4}|\\r?\\n[ \\t]{0,16}';

/** Fields of llguidance's `x-guidance` for one option. */
export function whitespaceGuidance(whitespace: WhitespaceOption): Record<string, unknown> {
  switch (whitespace.kind) {
    case 'capped':
      return { whitespace_pattern: CAPPED_WHITESPACE };
    case 'none':
      return { whitespace_flexible: false };
    case 'pattern':
      return whitespace.pattern === ''
        ? { whitespace_flexible: false }
        : { whitespace_pattern: translateRegex(whitespace.pattern, 'whitespace_pattern') };
    default:
      return whitespace satisfies never;
  }
}
