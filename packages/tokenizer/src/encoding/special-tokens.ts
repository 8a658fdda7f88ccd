/** A piece of text after recognition of special tokens. */
export type Fragment = { kind: 'plain'; text: string } | { kind: 'special'; id: number };

/** Tokens that are matched as a whole by text (control tokens or user-defined ones). Immutable. */
export class SpecialTokens {
  /** Distinct, longest first: an alternation prefers `<|im_end|>` to a shorter token it starts with. */
  readonly texts: readonly string[];
  readonly numCharacters: number;
  readonly #ids: ReadonlyMap<string, number>;
  readonly #pattern: RegExp | null; // null: there are no such tokens
  readonly #beginnings = new Set<string>();
  readonly #endings = new Set<string>();

  constructor(tokens: Iterable<{ id: number; text: string }>) {
    const ids = new Map<string, number>();
    for (const { id, text } of tokens) if (text !== '' && !ids.has(text)) ids.set(text, id);
    this.#ids = ids;
    this.texts = [...ids.keys()].sort((a, b) => b.length - a.length);
    this.numCharacters = new Set(this.texts.join('')).size;
    this.#pattern = this.texts.length === 0 ? null : new RegExp(this.texts.map(escapeRegExp).join('|'), 'g');
    for (const text of this.texts) {
      for (let length = 1; length < text.length; length++) {
        addBorder(this.#beginnings, text.slice(0, length));
        addBorder(this.#endings, text.slice(length));
      }
    }
  }

  replace(text: string, replacement: (tokenText: string) => string): string {
    return this.#pattern === null ? text : text.replace(this.#pattern, replacement);
  }

  /** Splits at every token's text; plain fragments are never empty. */
  split(text: string): Fragment[] {
    const fragments: Fragment[] = [];
    let plainFrom = 0;
    for (const match of this.#pattern === null ? [] : text.matchAll(this.#pattern)) {
      if (match.index > plainFrom) fragments.push({ kind: 'plain', text: text.slice(plainFrom, match.index) });
      const id = this.#ids.get(match[0]);
      if (id !== undefined) fragments.push({ kind: 'special', id });
      plainFrom = match.index + match[0].length;
    }
    if (plainFrom < text.length) fragments.push({ kind: 'plain', text: text.slice(plainFrom) });
    return fragments;
  }

  /** True if the text ends with a beginning of such a token (`… <|im_`), which other text could complete. */
  endsWithBeginning(text: string): boolean {
    for (let length = this.#longestBorder(text); length > 0; length--)
      if (this.#beginnings.has(text.slice(-length))) return true;
    return false;
  }

  /** True if the text starts with an ending of one (`end|> …`). */
  startsWithEnding(text: string): boolean {
    for (let length = this.#longestBorder(text); length > 0; length--)
      if (this.#endings.has(text.slice(0, length))) return true;
    return false;
  }

  #longestBorder(text: string): number {
    return Math.min(text.length, (this.texts[0]?.length ?? 1) - 1);
  }
}

// Borders of only letters and digits would match ordinary words; the other half, with the punctuation, is
// enough.
function addBorder(borders: Set<string>, border: string): void {
  if (/[^\p{L}\p{N}\s]/u.test(border)) borders.add(border);
}

function escapeRegExp(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`);
}
