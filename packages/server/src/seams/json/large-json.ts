import { type JsonMeasure, measureJson } from './json-scan.ts';

/**
 * Checks on the text of a large body, which are faster than those on its values: visiting member names is as
 * slow as parsing them, 0.2 s for half a million each time.
 */

/** Smaller bodies are checked by their values. */
export const LARGE_JSON_CHARACTERS = 262_144;

/**
 * An exponent of three digits, or so many digits that one of two is enough; also inside strings. Digits are
 * counted only from the first: from each, 8 MB of numbers that are just too short would take two seconds.
 */
const LARGE_NUMBER = /\d[eE]\+?\d{3}|(?<!\d)\d{200}/;

/** @param text valid for `JSON.parse` @returns false is certain; true means that the values must be checked */
export function mayHoldInfinity(text: string): boolean {
  return text.length < LARGE_JSON_CHARACTERS || LARGE_NUMBER.test(text);
}

/**
 * Maximum strings, member names, lists and objects in one body, without numbers. Parsing blocks all other
 * requests: 0.1 s at the limit, up to 1 s for 8 MB. A `logit_bias` of the largest vocabularies (262,208) and
 * a conversation of 50,000 messages are below it.
 */
export const MAX_JSON_VALUES = 300_000;
/** Objects with all different names cost most: 0.2 s at the limit, up to 4 s for 8 MB. */
export const MAX_JSON_NAMES = 131_072;

/** Measures the text of a large body; null for a small one, which is within the limits. */
export function measureLargeJson(text: string): JsonMeasure | null {
  return text.length < LARGE_JSON_CHARACTERS ? null : measureJson(text);
}
