import type { EngineTokenizer } from '../contract/engine-tokenizer.ts';
import { EngineError } from '../contract/errors.ts';

/**
 * Token sequences that a reply must not contain. Each word stands for two: as it is, left-trimmed, and with one space in front where that
 * changes the first token and not the length.
 *
 * @see vLLM, `SamplingParams.bad_words`
 */
export class BadWords {
  /** Words of one token. */
  readonly #always: readonly number[];
  /** Longer ones by their last token but one, so that a step looks only at those that may end now. */
  readonly #byPredecessor = new Map<number, (readonly number[])[]>();

  /** @throws {EngineError} engine.invalid_request for a word without tokens */
  constructor(words: readonly string[], tokenizer: Pick<EngineTokenizer, 'encodeWithSpecial'>) {
    const always = new Set<number>();
    for (const sequence of words.flatMap((word) => tokenSequences(word, tokenizer))) {
      const predecessor = sequence.at(-2);
      if (predecessor === undefined) {
        always.add(sequence[0]!);
        continue;
      }
      const group = this.#byPredecessor.get(predecessor);
      if (group) group.push(sequence);
      else this.#byPredecessor.set(predecessor, [sequence]);
    }
    this.#always = [...always];
  }

  /** Ids that would complete a word. @param start index of the first generated token in `tokens` */
  bannedAfter(tokens: readonly number[], start: number): readonly number[] {
    if (tokens.length === start) return this.#always;
    const candidates = this.#byPredecessor.get(tokens.at(-1)!);
    if (candidates === undefined) return this.#always;
    const completing = candidates.filter((word) => {
      const offset = tokens.length - word.length + 1;
      return offset >= start && word.every((id, i) => i === word.length - 1 || tokens[offset + i] === id);
    });
    return completing.length === 0 ? this.#always : [...this.#always, ...completing.map((word) => word.at(-1)!)];
  }
}

function tokenSequences(word: string, tokenizer: Pick<EngineTokenizer, 'encodeWithSpecial'>): (readonly number[])[] {
  const [plain, spaced] = ['', ' '].map((prefix) =>
    Array.from(tokenizer.encodeWithSpecial(prefix + word.trimStart())),
  ) as [number[], number[]];
  if (plain.length === 0) {
    throw new EngineError(
      'engine.invalid_request',
      `badWords must be words with at least 1 token, got ${JSON.stringify(word)}`,
      { param: 'badWords' },
    );
  }
  return spaced.length === plain.length && spaced[0] !== plain[0] ? [plain, spaced] : [plain];
}
