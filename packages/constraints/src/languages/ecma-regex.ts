import { ConstraintError } from '../contract/constraint-error.ts';
import { regexCodePoint } from './lark-text.ts';
import { byteLength, checkLimit } from '../contract/limits.ts';

/**
 * Translates JSON Schema's regular expressions (ECMAScript, `u` flag) to llguidance's dialect (Rust), for the
 * same language. The dialects differ in `.`, `\s`, `\d`, `\w` and classes, so nothing is copied.
 *
 * Also accepts Python's `(?P<name>…)`, `\A`, `\Z` and leading `(?i)`, `(?s)`. Refuses by name all that would
 * silently change the language: look-around, back references, word boundaries, atomic and possessive matching.
 * Drops laziness, which does not affect matching.
 */
export function translateRegex(pattern: string, where: string): string {
  checkLimit('regexBytes', byteLength(pattern));
  return new Translator(pattern, where).run();
}

/** True for a control character that JSON can only write as `\\u00XX`, also in a translated expression. */
export function namesControl(text: string): boolean {
  return /[^\P{Cc}\b\t\n\f\r\u0080-\u009f]|(?<!-)\\x\{(?:[0-7bef]|1[0-9a-f]|7f)\}(?!-)/u.test(text);
}

type Range = readonly [first: number, last: number];

const LAST_CODE_POINT = 0x10ffff;
const DIGITS: readonly Range[] = [[0x30, 0x39]];
const WORD: readonly Range[] = [...DIGITS, [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
const SPACE: readonly Range[] = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];
const LINE_ENDS: readonly Range[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
const SHORT_ESCAPES: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0, a: 7, e: 27 };

class Translator {
  readonly #characters: readonly string[];
  readonly #where: string;
  #at = 0;

  constructor(pattern: string, where: string) {
    this.#characters = Array.from(pattern);
    this.#where = where;
  }

  run(): string {
    if (this.#characters.some((character) => /^[\0\ud800-\udfff]$/u.test(character))) {
      throw this.#invalid('NUL and lone surrogates are not allowed');
    }
    const flags = this.#leadingFlags();
    const body = this.#alternatives(0, flags.includes('s'));
    if (this.#at < this.#characters.length) throw this.#invalid('a ")" without its "("');
    return flags.includes('i') ? `(?i:${body})` : body;
  }

  #leadingFlags(): string {
    const flags = /^\(\?([a-zA-Z]+)\)/.exec(this.#characters.slice(0, 16).join(''))?.[1];
    if (flags === undefined) return '';
    if (/[^is]/.test(flags)) throw this.#unsupported(`the flags "${flags}" (only i and s are)`);
    this.#at += flags.length + 3;
    return flags;
  }

  #alternatives(depth: number, dotAll: boolean): string {
    checkLimit('regexDepth', depth);
    const alternatives: string[] = [];
    let terms: string[] = [];
    for (;;) {
      const character = this.#characters[this.#at];
      if (character === undefined || character === ')') break;
      if (character === '|') {
        this.#at++;
        alternatives.push(terms.join(''));
        terms = [];
      } else {
        terms.push(this.#term(depth, dotAll));
      }
    }
    alternatives.push(terms.join(''));
    return alternatives.join('|');
  }

  #term(depth: number, dotAll: boolean): string {
    const character = this.#next();
    if (character === '^' || character === '$') {
      if (this.#quantifier() !== '') throw this.#invalid(`"${character}" cannot be repeated`);
      return character;
    }
    const atom = this.#atom(character, depth, dotAll);
    if (atom === '^' || atom === '$') return atom;
    return atom + this.#quantifier();
  }

  #atom(character: string, depth: number, dotAll: boolean): string {
    switch (character) {
      case '(':
        return this.#group(depth, dotAll);
      case '[':
        return this.#class();
      case '.':
        return dotAll ? classOf([[0, LAST_CODE_POINT]]) : classOf(complement(LINE_ENDS));
      case '\\':
        return this.#escapeOutsideClass();
      case '*':
      case '+':
      case '?':
        throw this.#invalid(`nothing before "${character}" that it could repeat`);
      default:
        return regexCodePoint(character.codePointAt(0)!);
    }
  }

  #group(depth: number, dotAll: boolean): string {
    let flags = '';
    if (this.#take('?')) {
      const rest = this.#characters.slice(this.#at, this.#at + 80).join('');
      const lookAround = /^(?:=|!|<=|<!)/.exec(rest);
      if (lookAround !== null) throw this.#unsupported('look-around');
      if (rest.startsWith('P=') || rest.startsWith('(')) throw this.#unsupported('a back reference');
      if (rest.startsWith('>')) throw this.#unsupported('an atomic group');
      const head = /^(?::|P?<[\p{L}_$][\p{L}\p{N}_$]*>|([is]+):)/u.exec(rest);
      if (head === null) throw this.#unsupported(`a group that starts with "(?${rest.slice(0, 1)}"`);
      flags = head[1] ?? '';
      this.#at += Array.from(head[0]).length;
    }
    const body = this.#alternatives(depth + 1, dotAll || flags.includes('s'));
    if (!this.#take(')')) throw this.#invalid('a "(" without its ")"');
    return flags.includes('i') ? `(?i:${body})` : `(?:${body})`;
  }

  #quantifier(): string {
    const start = this.#at;
    let quantifier = this.#characters[this.#at] ?? '';
    if (quantifier === '{') {
      const counted = /^\{(\d*)(,?)(\d*)\}/.exec(this.#characters.slice(this.#at, this.#at + 32).join(''));
      if (counted === null) return '';
      const [text, least, comma, most] = counted as unknown as [string, string, string, string];
      if (least === '') throw this.#invalid(`"${text}" has no lower bound: write {0,${most}}`);
      if (most !== '' && Number(most) < Number(least)) throw this.#invalid(`"${text}" is out of order`);
      checkLimit('repetitions', Number(most === '' ? least : most));
      this.#at += text.length;
      quantifier = `{${Number(least)}${comma}${most === '' ? '' : Number(most)}}`;
    } else if (quantifier === '*' || quantifier === '+' || quantifier === '?') {
      this.#at++;
    } else {
      return '';
    }
    this.#take('?');
    if (this.#characters[this.#at] === '+') throw this.#unsupported('a possessive quantifier');
    const again = this.#characters.slice(this.#at, this.#at + 32).join('');
    if (/^(?:[*?]|\{\d*,?\d*\})/.test(again)) throw this.#invalid(`two quantifiers at position ${start}`);
    return quantifier;
  }

  #escapeOutsideClass(): string {
    const escaped = this.#next();
    switch (escaped) {
      case 'b':
      case 'B':
        throw this.#unsupported(`the word boundary \\${escaped}`);
      case 'A':
        return '^';
      case 'Z':
      case 'z':
        return '$';
      case 'k':
        throw this.#unsupported('a back reference');
      default: {
        const ranges = shorthand(escaped);
        if (ranges !== undefined) return classOf(ranges);
        if (escaped === 'p' || escaped === 'P') return this.#property(escaped);
        return regexCodePoint(this.#escapedCodePoint(escaped));
      }
    }
  }

  /**
   * Reads a class after its "[". Each member is written unambiguously, because Rust's classes nest and have
   * operators.
   */
  #class(): string {
    const negated = this.#take('^');
    const members: string[] = [];
    while (!this.#take(']')) {
      const first = this.#classAtom();
      const isRange = this.#characters[this.#at] === '-' && this.#characters[this.#at + 1] !== ']';
      if (!isRange) {
        members.push(typeof first === 'number' ? regexCodePoint(first) : first);
        continue;
      }
      this.#at++;
      const last = this.#classAtom();
      if (typeof first === 'number' && typeof last === 'number') {
        if (last < first) throw this.#invalid('a range of a class is out of order');
        members.push(first === last ? regexCodePoint(first) : `${regexCodePoint(first)}-${regexCodePoint(last)}`);
      } else {
        // As without the `u` flag, a hyphen next to a class is a literal hyphen.
        for (const atom of [first, 0x2d, last]) members.push(typeof atom === 'number' ? regexCodePoint(atom) : atom);
      }
    }
    if (members.length > 0) return `[${negated ? '^' : ''}${members.join('')}]`;
    return negated ? classOf([[0, LAST_CODE_POINT]]) : classOf([]);
  }

  #classAtom(): number | string {
    const character = this.#next();
    if (character !== '\\') return character.codePointAt(0)!;
    const escaped = this.#next();
    if (escaped === 'b') return 8;
    const ranges = shorthand(escaped);
    if (ranges !== undefined) return classOf(ranges);
    if (escaped === 'p' || escaped === 'P') return this.#property(escaped);
    return this.#escapedCodePoint(escaped);
  }

  #property(escaped: string): string {
    const name = /^\{([A-Za-z0-9_=]+)\}/.exec(this.#characters.slice(this.#at, this.#at + 64).join(''));
    if (name === null) throw this.#invalid(`\\${escaped} needs the name of a property in braces`);
    this.#at += name[0].length;
    return `\\${escaped}{${name[1]!}}`;
  }

  #escapedCodePoint(escaped: string): number {
    const short = SHORT_ESCAPES[escaped];
    if (escaped === '0' && /\d/.test(this.#characters[this.#at] ?? '')) throw this.#unsupported('an octal escape');
    if (short !== undefined) return short;
    if (escaped === 'x') return this.#hex(2);
    if (escaped === 'u') return this.#unicode();
    if (escaped === 'U') return this.#hex(8);
    if (escaped === 'c') {
      const letter = this.#next();
      if (!/[A-Za-z]/.test(letter)) throw this.#invalid(String.raw`\c needs a letter`);
      return letter.charCodeAt(0) % 32;
    }
    if (/[1-9]/.test(escaped)) throw this.#unsupported('a back reference');
    if (/[A-Za-z]/.test(escaped)) throw this.#invalid(`unknown escape \\${escaped}`);
    return escaped.codePointAt(0)!;
  }

  #unicode(): number {
    if (this.#characters[this.#at] === '{') {
      const braced = /^\{([0-9a-fA-F]{1,6})\}/.exec(this.#characters.slice(this.#at, this.#at + 8).join(''));
      if (braced === null) throw this.#invalid(String.raw`\u{ needs up to six hexadecimal digits and a brace`);
      this.#at += braced[0].length;
      return this.#scalar(Number.parseInt(braced[1]!, 16));
    }
    const unit = this.#hexUnit(4);
    if (unit < 0xd800 || unit > 0xdbff) return this.#scalar(unit);
    if (!this.#take('\\') || !this.#take('u')) throw this.#invalid('half a surrogate pair');
    const low = this.#hexUnit(4);
    if (low < 0xdc00 || low > 0xdfff) throw this.#invalid('half a surrogate pair');
    return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
  }

  #hex(digits: number): number {
    return this.#scalar(this.#hexUnit(digits));
  }

  #hexUnit(digits: number): number {
    const text = this.#characters.slice(this.#at, this.#at + digits).join('');
    if (text.length < digits || /[^0-9a-fA-F]/.test(text)) throw this.#invalid(`${digits} hexadecimal digits expected`);
    this.#at += digits;
    return Number.parseInt(text, 16);
  }

  #scalar(codePoint: number): number {
    if (codePoint > LAST_CODE_POINT || (codePoint >= 0xd800 && codePoint <= 0xdfff)) {
      throw this.#invalid(`U+${codePoint.toString(16)} is not a character that a text can have`);
    }
    return codePoint;
  }

  #next(): string {
    const character = this.#characters[this.#at++];
    if (character === undefined) throw this.#invalid('it ends too early');
    return character;
  }

  #take(character: string): boolean {
    const isThere = this.#characters[this.#at] === character;
    if (isThere) this.#at++;
    return isThere;
  }

  #invalid(reason: string): ConstraintError {
    return new ConstraintError('constraint.invalid', `${this.#where}: ${reason}`);
  }

  #unsupported(what: string): ConstraintError {
    return new ConstraintError(
      'constraint.unsupported',
      `${this.#where}: ${what} is not supported in regular expressions`,
    );
  }
}

function shorthand(escaped: string): readonly Range[] | undefined {
  switch (escaped) {
    case 'd':
      return DIGITS;
    case 'D':
      return complement(DIGITS);
    case 'w':
      return WORD;
    case 'W':
      return complement(WORD);
    case 's':
      return SPACE;
    case 'S':
      return complement(SPACE);
    default:
      return undefined;
  }
}

/** @param ranges in order, not adjacent */
function complement(ranges: readonly Range[]): readonly Range[] {
  const rest: Range[] = [];
  let from = 0;
  for (const [first, last] of ranges) {
    if (first > from) rest.push([from, first - 1]);
    from = last + 1;
  }
  return [...rest, [from, LAST_CODE_POINT]];
}

function classOf(ranges: readonly Range[]): string {
  if (ranges.length === 0) return String.raw`[^\x{0}-\x{10ffff}]`;
  return `[${ranges.map(([first, last]) => `${regexCodePoint(first)}-${regexCodePoint(last)}`).join('')}]`;
}
