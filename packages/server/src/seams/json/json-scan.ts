/** A pass over JSON as text, for what its values here do not tell: where each stands, and how it is written. */

const SPACE = /[ \t\n\r]*/y;
/** The ids of any vocabulary have no more. */
const MAX_DIGITS = 7;

/**
 * Visits the members of an object as they are written, also those whose name comes again.
 *
 * @param text which `JSON.parse` reads
 * @param at of the object, or of space before it; another value has no members
 * @param visit gets the name, and where the value begins and ends
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

/** Visits the items of a list as {@link eachMember} does members. */
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

/** Character by character: a body has millions of them in front of its last member. */
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
        // Behind a number or a word: the end of what it stands in.
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

/** How much a text holds, members of one name each by itself. */
export interface JsonMeasure {
  /** Levels of lists and objects. */
  depth: number;
  /** Texts, names of members, lists and objects; numbers are none. */
  numValues: number;
  /** Names of members, without those that are whole numbers, as the ids of tokens are: V8 has no classes of objects for these. */
  numNames: number;
}

/** @param text which may be no JSON: then the figures mean nothing */
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

/** Whether a string is a whole number of a few digits. @param start behind its quote */
function isShortWhole(text: string, start: number): boolean {
  let at = start;
  while (at < start + MAX_DIGITS && isDigit(text.charCodeAt(at))) at += 1;
  return at > start && text.charCodeAt(at) === QUOTE;
}

function isDigit(character: number): boolean {
  return character >= DIGIT_0 && character <= DIGIT_9;
}

/** @param start at its quote @returns the end of the text where the string has none */
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

/** Where the next is that is no white space. */
export function behindSpace(text: string, start: number): number {
  SPACE.lastIndex = start;
  SPACE.test(text);
  return SPACE.lastIndex;
}
