import type { Vocabulary } from '../contract/vocabulary.ts';

export class TokenKinds {
  /** Tokens that text alone must not produce (control and unknown kinds), ascending ids. */
  readonly control: readonly { id: number; text: string }[];
  readonly endIds: ReadonlySet<number>;
  readonly longestTokenBytes: number;
  readonly #isControl: Uint8Array; // [V]

  constructor(vocabulary: Vocabulary) {
    const control: { id: number; text: string }[] = [];
    const endIds = new Set<number>();
    let longest = 0;
    this.#isControl = new Uint8Array(vocabulary.vocabSize);
    for (let id = 0; id < vocabulary.vocabSize; id++) {
      const bytes = vocabulary.tokenBytes(id);
      const kind = vocabulary.tokenKind(id);
      longest = Math.max(longest, bytes.length);
      if (kind === 'control' || kind === 'unknown') {
        control.push({ id, text: Buffer.from(bytes).toString() });
        this.#isControl[id] = 1;
      }
      if (vocabulary.isEndOfGeneration(id)) endIds.add(id);
    }
    for (const id of [vocabulary.eosTokenId, vocabulary.eotTokenId]) if (id !== null) endIds.add(id);
    this.control = control;
    this.endIds = endIds;
    this.longestTokenBytes = longest;
  }

  isControl(id: number): boolean {
    return this.#isControl[id] === 1;
  }
}
