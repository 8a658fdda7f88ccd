import { NumberHeap } from './number-heap.ts';
import { SpecialTokens } from './special-tokens.ts';
import { splitText, type Splitter } from './splitter.ts';

export interface BytePairVocabulary {
  /** Token texts by id, each byte as GPT-2's printable character (`Ġ` for a space). */
  readonly tokens: readonly string[];
  /** Merges by rank, `"left right"` in the same characters. */
  readonly merges: readonly string[];
  /** Tokens matched as a whole in any text. */
  readonly userDefined: readonly { id: number; text: string }[];
}

// Heap keys of a word are rank × this + position in doubles, exact up to 2^53: 2^20 ranks and words of 2^30
// bytes.
const POSITIONS = 2 ** 30;
const MAX_CACHED_WORD = 64; // UTF-16 units; longer words rarely recur
const MAX_CACHED_WORDS = 100_000;

/**
 * Byte-level byte pair encoding (GPT-2's), for vocabularies whose splitter is unsafe in the native library.
 *
 * Takes O(n log n) time in the longest word and O(n) memory, without recursion.
 */
export class BytePairEncoder {
  readonly #splitter: Splitter;
  readonly #userDefined: SpecialTokens;
  readonly #idOfText: ReadonlyMap<string, number>;
  readonly #idOfByte: readonly (number | undefined)[]; // [256]
  readonly #merges = new Map<number, { rank: number; id: number }>(); // by pairKey
  readonly #size: number;
  readonly #cache = new Map<string, readonly number[]>();

  constructor(vocabulary: BytePairVocabulary, splitter: Splitter) {
    this.#splitter = splitter;
    this.#userDefined = new SpecialTokens(vocabulary.userDefined);
    this.#size = vocabulary.tokens.length;
    this.#idOfText = new Map(vocabulary.tokens.map((text, id) => [text, id]));
    this.#idOfByte = PRINTABLE.map((character) => this.#idOfText.get(character));
    for (const [rank, merge] of vocabulary.merges.entries()) {
      const border = merge.indexOf(' ', 1);
      const left = this.#idOfText.get(merge.slice(0, border));
      const right = this.#idOfText.get(merge.slice(border + 1));
      const id = this.#idOfText.get(merge.slice(0, border) + merge.slice(border + 1));
      if (left === undefined || right === undefined || id === undefined) continue; // a pair that no text can reach
      const key = this.#pairKey(left, right);
      if (!this.#merges.has(key)) this.#merges.set(key, { rank, id });
    }
  }

  /** @param text well-formed; user-defined tokens in it are recognised, control tokens are not */
  encode(text: string): Int32Array {
    const ids: number[] = [];
    for (const fragment of this.#userDefined.split(text)) {
      if (fragment.kind === 'special') ids.push(fragment.id);
      else
        for (const word of splitText(fragment.text, this.#splitter.passes))
          for (const id of this.#encodeWord(word)) ids.push(id);
    }
    return Int32Array.from(ids);
  }

  #encodeWord(word: string): readonly number[] {
    const known = this.#cache.get(word);
    if (known !== undefined) return known;
    const bytes = Buffer.from(word);
    const whole = this.#splitter.prefersWholeWords ? this.#idOfText.get(printable(bytes)) : undefined;
    const ids = whole === undefined ? this.#merge(bytes) : [whole];
    if (word.length <= MAX_CACHED_WORD) {
      if (this.#cache.size >= MAX_CACHED_WORDS) this.#cache.clear();
      this.#cache.set(word, ids);
    }
    return ids;
  }

  /** Merges the pair of lowest rank, leftmost first, over a linked list of positions. */
  #merge(bytes: Uint8Array): number[] {
    const symbols: (number | undefined)[] = Array.from(bytes, (byte) => this.#idOfByte[byte]);
    const next = Int32Array.from(symbols, (_, position) => position + 1);
    const previous = Int32Array.from(symbols, (_, position) => position - 1);
    const queue = new NumberHeap();
    const pairAt = (left: number) => {
      const first = symbols[left];
      const second = symbols[next[left] ?? symbols.length];
      return first === undefined || second === undefined ? undefined : this.#merges.get(this.#pairKey(first, second));
    };
    const enqueue = (left: number) => {
      const pair = left < 0 ? undefined : pairAt(left);
      if (pair !== undefined) queue.push(pair.rank * POSITIONS + left);
    };
    for (let position = 0; position + 1 < symbols.length; position++) enqueue(position);
    for (let key = queue.pop(); key !== undefined; key = queue.pop()) {
      const left = key % POSITIONS;
      const pair = pairAt(left);
      if (pair?.rank !== Math.floor(key / POSITIONS)) continue; // one of the two has been merged since
      const right = next[left] ?? symbols.length;
      const after = next[right] ?? symbols.length;
      symbols[left] = pair.id;
      symbols[right] = undefined;
      next[left] = after;
      if (after < symbols.length) previous[after] = left;
      enqueue(previous[left] ?? -1);
      enqueue(left);
    }
    return symbols.filter((symbol) => symbol !== undefined);
  }

  #pairKey(left: number, right: number): number {
    return left * this.#size + right;
  }
}

/** GPT-2's printable character of each byte: itself if visible Latin-1, else one from U+0100 on. */
const PRINTABLE: readonly string[] = (() => {
  let extra = 0;
  return Array.from({ length: 256 }, (_, byte) => {
    const isVisible = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    return String.fromCodePoint(isVisible ? byte : 0x100 + extra++);
  });
})();

function printable(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => PRINTABLE[byte] ?? '').join('');
}
