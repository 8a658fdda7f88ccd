import { nestsDeeperThan } from './json-scan.ts';

/**
 * A look at the text of a large body, which tells sooner than its values do: names of members are as slow to go through as they were to read, and half a million of them took 0.2 s each time.
 * Each answer of false is certain, and true means that the values have to be looked at.
 */

/** Below so many characters the values are looked at at once. */
export const LARGE_JSON_CHARACTERS = 262_144;

/**
 * An exponent of three digits, or so many digits that one of two is enough; in a string, too. Digits are counted from their first one alone: from each of them, 8 MB of numbers
 * that are just too short would take two seconds.
 */
const LARGE_NUMBER = /\d[eE]\+?\d{3}|(?<!\d)\d{200}/;

/** @param text which `JSON.parse` reads */
export function mayHoldInfinity(text: string): boolean {
  return text.length < LARGE_JSON_CHARACTERS || LARGE_NUMBER.test(text);
}

/** @param text which `JSON.parse` reads: of two members with one name it holds both, of which the values know the last */
export function mayBeDeeperThan(text: string, limit: number): boolean {
  if (text.length < LARGE_JSON_CHARACTERS) return true;
  return nestsDeeperThan(text, limit);
}
