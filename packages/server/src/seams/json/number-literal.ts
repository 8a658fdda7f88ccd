import { behindSpace, eachMember } from './json-scan.ts';

/**
 * The number at a place as it was written, which may have more digits than a number here. One pass over the text for each name.
 *
 * @param text which `JSON.parse` reads
 * @param place names of members, from the outermost object on; of several members of one name the last counts, as for `JSON.parse`
 * @returns null where no number stands there
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

/** @param at of an object, or of another value, which has no members @returns where the value of its last member of that name begins */
function memberAt(text: string, at: number, name: string): number | null {
  let found: number | null = null;
  eachMember(text, at, (member, start) => {
    if (member === name) found = start;
  });
  return found;
}
