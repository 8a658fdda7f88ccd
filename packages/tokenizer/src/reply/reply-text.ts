/**
 * A piece of work on a reply that is still arriving: it yields where it needs text that is not there yet, and is resumed when there is
 * more, or when it is known that there will be none.
 */
export type Reading<Result = void> = Generator<void, Result, void>;

/** The text is not what its format asks for. Never leaves the reply parser. */
export class MalformedReply extends Error {
  override readonly name = 'MalformedReply';
}

const SPACE = /[ \t\r\n]*/y;

/**
 * The text of a reply, read once from left to right while it arrives. What a reader finds depends on the text alone, never on the
 * pieces it came in: whatever must know what follows waits for it.
 */
export class ReplyText {
  #pending = '';
  #at = 0; // in #pending
  #mark: number | null = null; // in #pending
  #sinceMark = ''; // the part of the marked text that lies in front of #pending
  #hasEnded = false;
  #isCutOff = false;

  append(text: string): void {
    if (this.#mark !== null) {
      this.#sinceMark += this.#pending.slice(this.#mark, this.#at);
      this.#mark = 0;
    }
    this.#pending = this.#pending.slice(this.#at) + text;
    this.#at = 0;
  }

  /** @param options `isCutOff`: the reply did not end by itself */
  end({ isCutOff = false }: { isCutOff?: boolean } = {}): void {
    this.#hasEnded = true;
    this.#isCutOff = isCutOff;
  }

  /** The reply has ended, and not by itself. */
  get isCutOff(): boolean {
    return this.#isCutOff;
  }

  /** From here on the text can be had back, until `unmark`. */
  mark(): void {
    this.#mark = this.#at;
    this.#sinceMark = '';
  }

  unmark(): void {
    this.#mark = null;
    this.#sinceMark = '';
  }

  /** All that was not read; with a mark, from there on. */
  rest(): string {
    return this.#mark === null ? this.#pending.slice(this.#at) : this.#sinceMark + this.#pending.slice(this.#mark);
  }

  /** Back to the mark, which is gone then. */
  rewind(): void {
    this.#pending = this.rest();
    this.#at = 0;
    this.unmark();
  }

  /** Reads all that `rest` gives; the mark is gone then. */
  takeRest(): string {
    const rest = this.rest();
    this.#at = this.#pending.length;
    this.unmark();
    return rest;
  }

  skip(numCharacters: number): void {
    this.#at += numCharacters;
  }

  /** The next character, unread; '' at the end of the reply. */
  *peek(): Reading<string> {
    while (this.#at >= this.#pending.length && !this.#hasEnded) yield;
    return this.#pending.charAt(this.#at);
  }

  /** Reads the next character; '' at the end of the reply. */
  *next(): Reading<string> {
    const character = yield* this.peek();
    this.#at += character.length;
    return character;
  }

  /** Reads white space; gives the character after it, unread. */
  *skipSpace(): Reading<string> {
    for (;;) {
      this.take(SPACE);
      if (this.#at < this.#pending.length || this.#hasEnded) return this.#pending.charAt(this.#at);
      yield;
    }
  }

  /** Reads what a sticky pattern matches in the text that is there; may be less than what will arrive. */
  take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found = ''] = pattern.exec(this.#pending) ?? [];
    this.#at += found.length;
    return found;
  }

  /** Reads a run of characters, to the first that the sticky pattern (of the form `/[…]+/y`) does not match. */
  *takeAll(pattern: RegExp): Reading<string> {
    let taken = '';
    for (;;) {
      taken += this.take(pattern);
      if (this.#at < this.#pending.length || this.#hasEnded) return taken;
      yield;
    }
  }

  /** Reads `literal` if it follows. At the end of the reply a beginning of it is left unread. */
  *accept(literal: string): Reading<boolean> {
    for (;;) {
      const there = this.#pending.slice(this.#at, this.#at + literal.length);
      if (there === literal) {
        this.#at += literal.length;
        return true;
      }
      if (this.#hasEnded || !literal.startsWith(there)) return false;
      yield;
    }
  }

  /** Whether `literal` follows. */
  *startsWith(literal: string): Reading<boolean> {
    const isThere = yield* this.accept(literal);
    if (isThere) this.#at -= literal.length;
    return isThere;
  }

  /**
   * Whether one of some literals, or the end of the reply, follows after white space.
   * @param skipped characters that are skipped first; they are there. Default: 0
   */
  *isFollowedBy(literals: readonly string[], skipped = 0): Reading<boolean> {
    for (;;) {
      const rest = this.#pending.slice(this.#at + skipped).trimStart();
      if (literals.some((literal) => rest.startsWith(literal))) return true;
      if (this.#hasEnded) return rest === '';
      if (rest !== '' && !literals.some((literal) => literal.startsWith(rest))) return false;
      yield;
    }
  }

  /** Whether a tag that is there (`<parameter=`) goes on with a name and `>`. @param test of the name */
  *isTagged(tag: string, test: (name: string) => boolean): Reading<boolean> {
    for (;;) {
      const rest = this.#pending.slice(this.#at + tag.length);
      const end = rest.search(/[<>\n]/);
      if (end >= 0) return rest.charAt(end) === '>' && test(rest.slice(0, end));
      if (this.#hasEnded) return false;
      yield;
    }
  }

  /** @throws {MalformedReply} when something else follows */
  *expect(literal: string): Reading {
    if (!(yield* this.accept(literal))) throw new MalformedReply(`expected ${literal}`);
  }

  /** As {@link expectUnlessEnded}, for a block that may go on where a reply was cut off. */
  *expectUnlessFinished(literal: string): Reading {
    if (yield* this.accept(literal)) return;
    if (this.#isCutOff) throw new MalformedReply(`expected ${literal}`);
    yield* this.expectUnlessEnded(literal);
  }

  /** As `expect`, for what closes a block: a reply may end before it, or within it. */
  *expectUnlessEnded(literal: string): Reading {
    if (yield* this.accept(literal)) return;
    const rest = this.#pending.slice(this.#at);
    if (!this.#hasEnded || !literal.startsWith(rest)) throw new MalformedReply(`expected ${literal}`);
    this.#at = this.#pending.length;
  }

  /**
   * Reads up to the first of some tags, which stays unread. Text that may be the beginning of one is held back.
   * @param onText gets the text in front of the tag, as it arrives
   * @returns null when the reply ends without one
   */
  *scanTo(tags: readonly string[], onText: (text: string) => void): Reading<string | null> {
    for (;;) {
      const found = firstOf(tags, this.#pending, this.#at);
      const numHeld = found === null && !this.#hasEnded ? heldBack(tags, this.#pending, this.#at) : 0;
      const end = found === null ? this.#pending.length - numHeld : found.index;
      if (end > this.#at) {
        onText(this.#pending.slice(this.#at, end));
        this.#at = end;
      }
      if (found !== null) return found.tag;
      if (this.#hasEnded) return null;
      yield;
    }
  }
}

/** The tag that occurs first; of two at one place, the first in the list. */
function firstOf(tags: readonly string[], text: string, from: number): { tag: string; index: number } | null {
  let first: { tag: string; index: number } | null = null;
  for (const tag of tags) {
    const index = text.indexOf(tag, from);
    if (index >= 0 && (first === null || index < first.index)) first = { tag, index };
  }
  return first;
}

/** Length of the longest ending of `text` (from `from` on) that is the beginning of a tag. @param from default 0 */
export function heldBack(tags: readonly string[], text: string, from = 0): number {
  let longest = 0;
  for (const tag of tags) {
    for (let length = Math.min(tag.length - 1, text.length - from); length > longest; length--) {
      if (text.endsWith(tag.slice(0, length))) longest = length;
    }
  }
  return longest;
}
