/** Reading of a reply that is still arriving: yields when it needs more text. */
export type Reading<Result = void> = Generator<void, Result, void>;

/** Text that violates its format. Never leaves the reply parser. */
export class MalformedReply extends Error {
  override readonly name = 'MalformedReply';
}

const SPACE = /[ \t\r\n]*/y;

/**
 * Text of a reply, read once from left to right. Results depend only on the text, never on its pieces: readers
 * wait for the text that decides.
 */
export class ReplyText {
  #pending = '';
  #at = 0; // in #pending
  #mark: number | null = null; // in #pending
  #sinceMark = ''; // the part of the marked text before #pending
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

  /** True if the reply ended, but not by itself. */
  get isCutOff(): boolean {
    return this.#isCutOff;
  }

  /** Marks the position for `rewind`, until `unmark`. */
  mark(): void {
    this.#mark = this.#at;
    this.#sinceMark = '';
  }

  unmark(): void {
    this.#mark = null;
    this.#sinceMark = '';
  }

  /** Unread text; with a mark, from there on. */
  rest(): string {
    return this.#mark === null ? this.#pending.slice(this.#at) : this.#sinceMark + this.#pending.slice(this.#mark);
  }

  rewind(): void {
    this.#pending = this.rest();
    this.#at = 0;
    this.unmark();
  }

  /** Reads all of `rest` and removes the mark. */
  takeRest(): string {
    const rest = this.rest();
    this.#at = this.#pending.length;
    this.unmark();
    return rest;
  }

  skip(numCharacters: number): void {
    this.#at += numCharacters;
  }

  /** Next character, unread; '' at the end of the reply. */
  *peek(): Reading<string> {
    while (this.#at >= this.#pending.length && !this.#hasEnded) yield;
    return this.#pending.charAt(this.#at);
  }

  /** '' at the end of the reply. */
  *next(): Reading<string> {
    const character = yield* this.peek();
    this.#at += character.length;
    return character;
  }

  /** Skips white space; returns the next character, unread. */
  *skipSpace(): Reading<string> {
    for (;;) {
      this.take(SPACE);
      if (this.#at < this.#pending.length || this.#hasEnded) return this.#pending.charAt(this.#at);
      yield;
    }
  }

  /** Reads the match of a sticky pattern in the text so far, which may be cut short. */
  take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const [found = ''] = pattern.exec(this.#pending) ?? [];
    this.#at += found.length;
    return found;
  }

  /** Reads a run of characters that match a sticky pattern of the form `/[…]+/y`. */
  *takeAll(pattern: RegExp): Reading<string> {
    let taken = '';
    for (;;) {
      taken += this.take(pattern);
      if (this.#at < this.#pending.length || this.#hasEnded) return taken;
      yield;
    }
  }

  /** Reads `literal` if it follows. At the end of the reply a partial match is left unread. */
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

  *startsWith(literal: string): Reading<boolean> {
    const isThere = yield* this.accept(literal);
    if (isThere) this.#at -= literal.length;
    return isThere;
  }

  /**
   * True if a literal, or the end of the reply, follows after white space.
   *
   * @param skipped number of present characters to skip first. Default: 0
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

  /** True if a present tag (`<parameter=`) continues with a name and `>`. @param test of the name */
  *isTagged(tag: string, test: (name: string) => boolean): Reading<boolean> {
    for (;;) {
      const rest = this.#pending.slice(this.#at + tag.length);
      const end = rest.search(/[<>\n]/);
      if (end >= 0) return rest.charAt(end) === '>' && test(rest.slice(0, end));
      if (this.#hasEnded) return false;
      yield;
    }
  }

  /** @throws {MalformedReply} if something else follows */
  *expect(literal: string): Reading {
    if (!(yield* this.accept(literal))) throw new MalformedReply(`expected ${literal}`);
  }

  /** Like {@link expectUnlessEnded}, for a block that could continue after a cut-off. */
  *expectUnlessFinished(literal: string): Reading {
    if (yield* this.accept(literal)) return;
    if (this.#isCutOff) throw new MalformedReply(`expected ${literal}`);
    yield* this.expectUnlessEnded(literal);
  }

  /** Like `expect`, but the reply may end before or within it. */
  *expectUnlessEnded(literal: string): Reading {
    if (yield* this.accept(literal)) return;
    const rest = this.#pending.slice(this.#at);
    if (!this.#hasEnded || !literal.startsWith(rest)) throw new MalformedReply(`expected ${literal}`);
    this.#at = this.#pending.length;
  }

  /**
   * Reads up to the first of some tags, which stays unread. A possible start of one is held back.
   *
   * @param onText gets the text before the tag, as it arrives
   * @returns null if the reply ends without one
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

/** Chooses the first in the list of tags at one place. */
function firstOf(tags: readonly string[], text: string, from: number): { tag: string; index: number } | null {
  let first: { tag: string; index: number } | null = null;
  for (const tag of tags) {
    const index = text.indexOf(tag, from);
    if (index >= 0 && (first === null || index < first.index)) first = { tag, index };
  }
  return first;
}

/** Length of the longest suffix of `text` (from `from` on) that starts a tag. @param from default 0 */
export function heldBack(tags: readonly string[], text: string, from = 0): number {
  let longest = 0;
  for (const tag of tags) {
    for (let length = Math.min(tag.length - 1, text.length - from); length > longest; length--) {
      if (text.endsWith(tag.slice(0, length))) longest = length;
    }
  }
  return longest;
}
