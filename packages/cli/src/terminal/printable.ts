import { stripVTControlCharacters } from 'node:util';

/** Characters that move a cursor or end a line. */
const ACTING = /[\p{Cc}\u2028\u2029]+/gu;
/** Marks that nobody sees and that turn the direction of what stands around them (UAX 9). */
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
/** Those of them that are no part of a text: all but ends of lines and tabs. */
const ACTING_IN_TEXT = /[^\P{Cc}\t\n]/gu;
const ONLY_MARKS = /^[\p{M}\p{Cf}]+$/u;
/** Characters of two columns in a terminal: emoji, and what East Asian scripts write wide (UAX 11, W and F). */
const WIDE =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u;

/**
 * Names and messages come from others: no control character of theirs reaches the terminal, and marks that turn text around are written as their numbers, since
 * a name with one is another name.
 */
export function oneLine(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll(ACTING, ' ')
    .replaceAll(TURNING, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** A piece of what a model says: a terminal is told nothing but text, a file or a pipe all of it. */
export function replyFor(stream: object, piece: string): string {
  return 'isTTY' in stream && stream.isTTY === true ? piece.replaceAll(ACTING_IN_TEXT, '') : piece;
}

const CHARACTERS = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** Columns that a line takes in a terminal. */
export function columnsOf(text: string): number {
  return charactersOf(text).reduce((sum, character) => sum + columnsOfCharacter(character), 0);
}

/** As much of a line as fits, with `…` where something is left out. */
export function cutTo(text: string, columns: number): string {
  if (columnsOf(text) <= columns) return text;
  let kept = '';
  let left = Math.max(0, columns - 1);
  for (const character of charactersOf(text)) {
    left -= columnsOfCharacter(character);
    if (left < 0) break;
    kept += character;
  }
  return `${kept}…`;
}

/** Each that a reader takes for one, with all of its marks. */
function charactersOf(text: string): string[] {
  return Array.from(CHARACTERS.segment(text), ({ segment }) => segment);
}

function columnsOfCharacter(character: string): number {
  if (WIDE.test(character)) return 2;
  return ONLY_MARKS.test(character) ? 0 : 1;
}

/** `1 warning`, `2 warnings`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
