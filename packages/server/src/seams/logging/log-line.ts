/**
 * C0, C1, and characters that change text direction or end a line: they must not act in a terminal or a log.
 */
const ACTING = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu;

/**
 * Makes any text safe for the log: active characters become their number, and only the first line starts at
 * the margin, so that outside text cannot look like an entry of its own.
 */
export function toLogLine(text: string): string {
  return text
    .replaceAll(ACTING, (character) => {
      if (character === '\n' || character === '\t') return character;
      const code = character.codePointAt(0) ?? 0;
      return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
    })
    .replaceAll(/\n(?! {4})/g, '\n    ');
}
