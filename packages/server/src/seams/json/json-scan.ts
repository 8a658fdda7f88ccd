/** A pass over JSON text, for facts that parsed values lack: the position of each value and its spelling. */

const SPACE = /[ \t\n\r]*/y;
/** Maximum digits of token ids in any vocabulary. */
const MAX_DIGITS = 7;

/**
 * Visits the members of an object in source order, including repeated names.
 * @param text valid for `JSON.parse`
 * @param at start of the object, or of space before it; other values have no members
 * @param visit gets the name, and start and end of the value
 */
export function eachMember(text: string, at: number, visit: (name: string, start: number, end: number) => void): void {
  const opened = behindSpace(text, at);
  if (text.charCodeAt(opened) !== OPENED_OBJECT) return;
  for (let next = behindSpace(text, opened + 1); text.charCodeAt(next) === QUOTE;) {
    const keyEnd = behindString(text, next);
    const start = behindSpace(text, behindSpace(text, keyEnd) + 1);
    const end = behindValue(text, start);
    visit(nameAt(text, next, keyEnd), start, end);
    next = behindSpace(text, end);
    if (text.charCodeAt(next) === COMMA) next = behindSpace(text, next + 1);
  }
}

export function eachItem(text: string, at: number, visit: (index: number, start: number, end: number) => void): void {
  const opened = behindSpace(text, at);
  if (text.charCodeAt(opened) !== OPENED_LIST) return;
  let next = behindSpace(text, opened + 1);
  for (let index = 0; next < text.length && text.charCodeAt(next) !== CLOSED_LIST; index++) {
    const end = behindValue(text, next);
    visit(index, next, end);
    next = behindSpace(text, end);
    if (text.charCodeAt(next) === COMMA) next = behindSpace(text, next + 1);
  }
}

function nameAt(text: string, start: number, end: number): string {
  const written = text.slice(start + 1, end - 1);
  return written.includes('\\') ? (JSON.parse(text.slice(start, end)) as string) : written;
}

/** Works character by character: a body has millions before its last member. */
function behindValue(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = behindString(text, at) - 1;
        break;
      case OPENED_LIST:
      case OPENED_OBJECT:
        depth += 1;
        continue;
      case CLOSED_LIST:
      case CLOSED_OBJECT:
        // After a number or a word: the end of its container.
        if (depth === 0) return at;
        depth -= 1;
        break;
      case COMMA:
        if (depth === 0) return at;
        continue;
      default:
        continue;
    }
    if (depth === 0) return at + 1;
  }
  return text.length;
}

export interface JsonMeasure {
  depth: number;
  /** Strings, member names, lists and objects; not numbers. */
  numValues: number;
  /** Member names except whole numbers such as token ids, for which V8 makes no hidden classes. */
  numNames: number;
}

/** @param text for invalid JSON the figures mean nothing */
export function measureJson(text: string): JsonMeasure {
  let level = 0;
  let depth = 0;
  let numValues = 0;
  let numNames = 0;
  let lastString = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        lastString = at;
        at = behindString(text, at) - 1;
        numValues += 1;
        break;
      case COLON:
        if (!isShortWhole(text, lastString + 1)) numNames += 1;
        break;
      case OPENED_LIST:
      case OPENED_OBJECT:
        numValues += 1;
        level += 1;
        if (level > depth) depth = level;
        break;
      case CLOSED_LIST:
      case CLOSED_OBJECT:
        level -= 1;
        break;
      default:
    }
  }
  return { depth, numValues, numNames };
}

/** True for a string that is a whole number of few digits. @param start after its quote */
function isShortWhole(text: string, start: number): boolean {
  let at = start;
  while (at < start + MAX_DIGITS && isDigit(text.charCodeAt(at))) at += 1;
  return at > start && text.charCodeAt(at) === QUOTE;
}

function isDigit(character: number): boolean {
  return character >= DIGIT_0 && character <= DIGIT_9;
}

/** @param start at its quote @returns the end of the text if the string is not closed */
function behindString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let numEscapes = 0;
    while (text.charCodeAt(end - 1 - numEscapes) === BACKSLASH) numEscapes += 1;
    if (numEscapes % 2 === 0) return end + 1;
  }
  return text.length;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;
const COLON = 0x3a;
const OPENED_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSED_LIST = 0x5d;
const OPENED_OBJECT = 0x7b;
const CLOSED_OBJECT = 0x7d;

export function behindSpace(text: string, start: number): number {
  SPACE.lastIndex = start;
  SPACE.test(text);
  return SPACE.lastIndex;
}
