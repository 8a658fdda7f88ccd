/** Quotes a string literal of Lark, whose lexer accepts JSON except a raw DEL. */
export function larkString(text: string): string {
  return JSON.stringify(text).replaceAll('\x7f', String.raw`\u007f`);
}

/** Escapes a code point for a regular expression or its class. */
export function regexCodePoint(codePoint: number): string {
  const isPlain =
    (codePoint >= 0x30 && codePoint <= 0x39) ||
    (codePoint >= 0x41 && codePoint <= 0x5a) ||
    (codePoint >= 0x61 && codePoint <= 0x7a);
  return isPlain ? String.fromCodePoint(codePoint) : String.raw`\x{${codePoint.toString(16)}}`;
}

/** Matches exactly this text. */
export function regexLiteral(text: string): string {
  return Array.from(text, (character) => regexCodePoint(character.codePointAt(0)!)).join('');
}
