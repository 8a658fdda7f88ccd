import { stripVTControlCharacters } from 'node:util';

/** Characters that move a cursor or end a line. */
const ACTING = /[\p{Cc}\u2028\u2029]+/gu;
/** Invisible marks that change the direction of the surrounding text (UAX 9). */
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
/** Such characters other than line ends and tabs, which belong to text. */
const ACTING_IN_TEXT = /[^\P{Cc}\t\n]/gu;
const ONLY_MARKS = /^[\p{M}\p{Cf}]+$/u;
/**
 * Characters that take two columns in a terminal: emoji, and wide East Asian characters (UAX 11, W and F).
 */
const WIDE =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u;

/**
 * Sanitises foreign names and messages for the terminal: removes control characters, and writes direction
 * marks as numbers, because a name with one is another name.
 */
export function oneLine(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll(ACTING, ' ')
    .replaceAll(TURNING, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Sanitises a piece of a reply: only text for a terminal, unchanged for a file or a pipe. */
export function replyFor(stream: object, piece: string): string {
  return 'isTTY' in stream && stream.isTTY === true ? piece.replaceAll(ACTING_IN_TEXT, '') : piece;
}

/** Least width that is cut in the middle. */
const MIDDLE_COLUMNS = 9;
const CHARACTERS = new Intl.Segmenter('en', { granularity: 'grapheme' });

export function columnsOf(text: string): number {
  return charactersOf(text).reduce((sum, character) => sum + columnsOfCharacter(character), 0);
}

/** Cuts a line to the columns, with `…` at the cut. */
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

/** Cuts a line to the columns in its middle: `local/rese…-seed-3`. The end keeps a little more than the start. */
export function cutInMiddle(text: string, columns: number): string {
  if (columnsOf(text) <= columns) return text;
  // A short rest of an end is no help.
  if (columns < MIDDLE_COLUMNS) return cutTo(text, columns);
  const characters = charactersOf(text);
  const take = (from: readonly string[], room: number): string[] => {
    const taken: string[] = [];
    let left = room;
    for (const character of from) {
      left -= columnsOfCharacter(character);
      if (left < 0) break;
      taken.push(character);
    }
    return taken;
  };
  const start = take(characters, Math.floor((columns - 1) / 2));
  const rest = columns - 1 - columnsOf(start.join(''));
  const end = take(characters.toReversed(), rest).toReversed();
  return `${start.join('')}…${end.join('')}`;
}

/** Wraps a line at blanks; a word that is longer than a line stays whole. @param indent of the lines after the first */
export function wrapWords(text: string, columns: number, indent = ''): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line.trim() !== '' && columnsOf(longer) > columns) {
      lines.push(line);
      line = indent + word;
    } else line = longer;
  }
  return [...lines, line].join('\n');
}

/** Characters as a reader counts them, each with all of its marks. */
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
