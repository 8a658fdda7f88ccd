/**
 * The number at a place as it was written, which may have more digits than a number here. One pass over what stands before it.
 *
 * @param text which `JSON.parse` reads
 * @param place names of members, from the outermost object on; of several members of one name the last counts, as for `JSON.parse`
 * @returns null where no number stands there
 */
export function numberLiteralAt(text: string, place: readonly string[]): string | null {
  let at: number | null = 0;
  for (const name of place) {
    at = memberAt(text, behindSpace(text, at), name);
    if (at === null) return null;
  }
  NUMBER.lastIndex = behindSpace(text, at);
  return NUMBER.exec(text)?.[0] ?? null;
}

const NUMBER = /-?\d[\d.eE+-]*/y;
const SPACE = /[ \t\n\r]*/y;

/** @param start of an object, or of another value, which has no members @returns where the value of its last member of that name begins */
function memberAt(text: string, start: number, name: string): number | null {
  if (text[start] !== '{') return null;
  let found: number | null = null;
  for (let at = behindSpace(text, start + 1); text[at] === '"';) {
    const keyEnd = behindString(text, at);
    const value = behindSpace(text, behindSpace(text, keyEnd) + 1);
    if (nameAt(text, at, keyEnd) === name) found = value;
    at = behindSpace(text, behindValue(text, value));
    if (text[at] === ',') at = behindSpace(text, at + 1);
  }
  return found;
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

/** @param start at its quote */
function behindString(text: string, start: number): number {
  for (let at = start + 1; ; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at + 1;
    if (code === BACKSLASH) at += 1;
  }
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const OPENED_LIST = 0x5b;
const BACKSLASH = 0x5c;
const CLOSED_LIST = 0x5d;
const OPENED_OBJECT = 0x7b;
const CLOSED_OBJECT = 0x7d;

function behindSpace(text: string, start: number): number {
  SPACE.lastIndex = start;
  SPACE.test(text);
  return SPACE.lastIndex;
}
