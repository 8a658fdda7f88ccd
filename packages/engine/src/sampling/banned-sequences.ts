/** Token sequences that a reply must not contain. */
export class BannedSequences {
  /** Sequences of one token. */
  readonly #always: readonly number[];
  /** Longer ones by their second last token, so that a step checks only those that may end now. */
  readonly #byPredecessor = new Map<number, (readonly number[])[]>();

  constructor(sequences: Iterable<readonly number[]>) {
    const always = new Set<number>();
    for (const sequence of sequences) {
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

  /** Ids that would complete one of them. @param start index of the first generated token in `tokens` */
  bannedAfter(tokens: readonly number[], start: number): readonly number[] {
    if (tokens.length === start) return this.#always;
    const candidates = this.#byPredecessor.get(tokens.at(-1)!);
    if (candidates === undefined) return this.#always;
    const completing = candidates.filter((sequence) => {
      const offset = tokens.length - sequence.length + 1;
      return offset >= start && sequence.every((id, i) => i === sequence.length - 1 || tokens[offset + i] === id);
    });
    return completing.length === 0
      ? this.#always
      : [...this.#always, ...completing.map((sequence) => sequence.at(-1)!)];
  }
}
