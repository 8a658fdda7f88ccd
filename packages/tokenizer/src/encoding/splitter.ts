/** Rules that cut text into words before byte pair encoding. */
export interface Splitter {
  /** Applied in turn to the pieces of the one before; matches and the text between them are the new pieces. */
  readonly passes: readonly RegExp[];
  /** True if a word that is a token stays whole, regardless of the merges. */
  readonly prefersWholeWords: boolean;
  /** True if llama.cpp splits without recursion, safely on any text. */
  readonly isSafeInLlamaCpp: boolean;
}

export function splitText(text: string, passes: readonly RegExp[]): string[] {
  return passes.reduce((pieces, pass) => pieces.flatMap((piece) => splitPiece(piece, pass)), text === '' ? [] : [text]);
}

function splitPiece(piece: string, pass: RegExp): string[] {
  const parts: string[] = [];
  let from = 0;
  for (const match of piece.matchAll(pass)) {
    if (match.index > from) parts.push(piece.slice(from, match.index));
    if (match[0] !== '') parts.push(match[0]);
    from = match.index + match[0].length;
  }
  if (from < piece.length) parts.push(piece.slice(from));
  return parts;
}

/**
 * Compiles a tokenizer's published pattern. Its `\s` is Unicode's White_Space; JavaScript's differs in U+0085
 * and U+FEFF.
 */
export function pass(pattern: string): RegExp {
  return new RegExp(
    pattern
      .replaceAll(String.raw`\s`, String.raw`\p{White_Space}`)
      .replaceAll(String.raw`\S`, String.raw`\P{White_Space}`),
    'gu',
  );
}
