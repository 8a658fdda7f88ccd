import { behindSpace, eachMember } from './json-scan.ts';

/**
 * Source text of the number at a place: it may have more digits than a JavaScript number. One pass over the
 * text per name.
 * @param text valid for `JSON.parse`
 * @param place member names, outermost first; the last of repeated members counts, as in `JSON.parse`
 * @returns null if there is no number
 */
export function numberLiteralAt(text: string, place: readonly string[]): string | null {
  let at: number | null = 0;
  for (const name of place) {
    at = memberAt(text, at, name);
    if (at === null) return null;
  }
  NUMBER.lastIndex = behindSpace(text, at);
  return NUMBER.exec(text)?.[0] ?? null;
}

const NUMBER = /-?\d[\d.eE+-]*/y;

/**
 * @param at start of the value; only objects have members
 * @returns start of the value of the last member with that name
 */
function memberAt(text: string, at: number, name: string): number | null {
  let found: number | null = null;
  eachMember(text, at, (member, start) => {
    if (member === name) found = start;
  });
  return found;
}
