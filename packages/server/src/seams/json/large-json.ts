import { type JsonMeasure, measureJson } from './json-scan.ts';

/**
 * A look at the text of a large body, which tells sooner than its values do: names of members are as slow to go through as they were to read, and half a million of them took 0.2 s each time.
 */

/** Below so many characters the values are looked at at once. */
export const LARGE_JSON_CHARACTERS = 262_144;

/**
 * An exponent of three digits, or so many digits that one of two is enough; in a string, too. Digits are counted from their first one alone: from each of them, 8 MB of numbers
 * that are just too short would take two seconds.
 */
const LARGE_NUMBER = /\d[eE]\+?\d{3}|(?<!\d)\d{200}/;

/** @param text which `JSON.parse` reads @returns false is certain, and true means that the values have to be looked at */
export function mayHoldInfinity(text: string): boolean {
  return text.length < LARGE_JSON_CHARACTERS || LARGE_NUMBER.test(text);
}

/**
 * Texts, names of members, lists and objects in one body, numbers apart. Reading them keeps all other requests waiting, 0.1 s so many, and 8 MB of them up to 1 s. A `logit_bias` of the
 * largest vocabularies (262,208) is below it, and a conversation of 50,000 messages.
 */
export const MAX_JSON_VALUES = 300_000;
/** See {@link JsonMeasure}. Objects whose names are all different cost the most: so many of these names 0.2 s, and 8 MB of them up to 4 s. */
export const MAX_JSON_NAMES = 131_072;

/** How much a large body holds, by its text; null of a small one, which cannot hold too much. */
export function measureLargeJson(text: string): JsonMeasure | null {
  return text.length < LARGE_JSON_CHARACTERS ? null : measureJson(text);
}
