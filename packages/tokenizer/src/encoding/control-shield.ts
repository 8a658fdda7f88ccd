import type { SpecialTokens } from './special-tokens.ts';
import { membersOf } from '../contract/python-values.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';

// Supplementary private-use planes: 65,534 code points each, without assigned meanings.
const PLANES = [0xf0000, 0x100000] as const;
const PLANE_SIZE = 0xfffe;
const PRIVATE_USE = /[\u{F0000}-\u{10FFFF}]/gu;
/**
 * Such a character, or its surrogate pair as escaped by tojson(ensure_ascii=true). Compiling takes longer than
 * its use in a chat.
 */
const RESTORABLE = /[\u{F0000}-\u{10FFFF}]|\\u(db[89a-f][0-9a-f])\\u(d[c-f][0-9a-f]{2})/gu;

/**
 * Prevents outside text from becoming control tokens in a chat template.
 *
 * Before rendering, `protect` replaces each control token's text by a private-use character, at a random offset
 * and absent from the given strings. Control tokens then come only from the template: the rendered text is split
 * at them, and `restore` puts the texts back into the plain fragments.
 *
 * Two strings could join into a control token (`<|im_` and `end|>`), so `protect` also replaces the last
 * character of a string that ends with the beginning of one, and the first of one that starts with an end. A
 * template may write both ends around a value, as `<|{{ role }}|>` intends.
 */
export class ControlShield {
  /** A character that occurs in no protected string; marks a place in a rendered text. */
  readonly sentinel: string;
  readonly #control: SpecialTokens;
  readonly #first: number;
  readonly #characters = new Map<string, string>();
  readonly #literals = new Map<string, string>();

  /** @param values all to be protected, including strings inside arrays and objects, and keys */
  constructor(control: SpecialTokens, values: readonly unknown[]) {
    this.#control = control;
    // The sentinel, the tokens, and the possible border characters.
    const needed = 1 + control.texts.length + control.numCharacters;
    this.#first = freeRange(needed, privateCharacters(values));
    this.sentinel = String.fromCodePoint(this.#first);
  }

  /** A deep copy in which no string or object key contains a control token's text or borders on one. */
  protect(value: unknown): unknown {
    if (typeof value === 'string') return this.#protectText(value);
    if (Array.isArray(value)) return value.map((element) => this.protect(element));
    if (typeof value !== 'object' || value === null || value instanceof Number) return value;
    if (value instanceof Map)
      return new Map(
        Array.from(value as Map<string, unknown>, ([key, element]) => [
          this.#replaceTokens(key),
          this.protect(element),
        ]),
      );
    return Object.fromEntries(
      Object.entries(value).map(([key, element]) => [this.#replaceTokens(key), this.protect(element)]),
    );
  }

  /** Inverse of `protect` for text; removes the sentinel. */
  restore(text: string): string {
    return text.replace(RESTORABLE, (found: string, high: string | undefined, low: string | undefined) => {
      if (found === this.sentinel) return '';
      if (high === undefined || low === undefined) return this.#literals.get(found) ?? found;
      const literal = this.#literals.get(String.fromCharCode(Number.parseInt(high, 16), Number.parseInt(low, 16)));
      return literal === undefined ? found : escapeNonAscii(literal);
    });
  }

  #protectText(text: string): string {
    const inner = this.#replaceTokens(text);
    const core = inner.trim(); // a template may trim, so borders are those of the trimmed text
    const first = this.#control.startsWithEnding(core) ? core.slice(0, 1) : '';
    const last = this.#control.endsWithBeginning(core) ? core.slice(-1) : '';
    if (first === '' && last === '') return inner;
    if (core.length === 1) return inner.replace(core, this.#characterFor(core));
    const middle = core.slice(first.length, core.length - last.length);
    const start = inner.indexOf(core);
    return (
      inner.slice(0, start) + this.#optional(first) + middle + this.#optional(last) + inner.slice(start + core.length)
    );
  }

  #replaceTokens(text: string): string {
    return this.#control.replace(text, (controlText) => this.#characterFor(controlText));
  }

  #optional(literal: string): string {
    return literal === '' ? '' : this.#characterFor(literal);
  }

  #characterFor(literal: string): string {
    const known = this.#characters.get(literal);
    if (known !== undefined) return known;
    const character = String.fromCodePoint(this.#first + 1 + this.#characters.size);
    this.#characters.set(literal, character);
    this.#literals.set(character, literal);
    return character;
  }
}

function escapeNonAscii(text: string): string {
  return text.replace(/[\x7f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

function privateCharacters(values: readonly unknown[], found = new Set<number>()): Set<number> {
  for (const value of values) {
    if (typeof value === 'string')
      for (const character of value.match(PRIVATE_USE) ?? []) found.add(character.codePointAt(0) ?? 0);
    else if (Array.isArray(value)) privateCharacters(value, found);
    else if (typeof value === 'object' && value !== null) {
      privateCharacters(value instanceof Map ? [...(value as Map<string, unknown>).keys()] : Object.keys(value), found);
      privateCharacters(membersOf(value), found);
    }
  }
  return found;
}

/** First of `length` consecutive free private-use code points; random, so that an attacker cannot predict it. */
function freeRange(length: number, taken: ReadonlySet<number>): number {
  const isFree = (first: number) => {
    for (let codePoint = first; codePoint < first + length; codePoint++) if (taken.has(codePoint)) return false;
    return true;
  };
  const start = Math.floor(Math.random() * PLANE_SIZE);
  for (const plane of PLANES) {
    const numPlaces = PLANE_SIZE - length + 1;
    for (let index = 0; index < numPlaces; index++) {
      const first = plane + ((start + index) % numPlaces);
      if (isFree(first)) return first;
    }
  }
  throw new TokenizerError(
    'tokenizer.unsupported_content',
    `the messages hold ${taken.size} different characters of the private-use planes 15 and 16: no ${length} consecutive ones are left for the chat template`,
  );
}
