import type { Vocabulary } from '../contract/vocabulary.ts';

/** Sides of a special token that lose white space in tokenisation. */
export interface Spacing {
  readonly dropsBefore: boolean;
  readonly dropsAfter: boolean;
}

/**
 * Some vocabularies drop white space next to a special token (Phi-3's `<|user|>` takes the newline after it).
 * Model files do not declare this, so each token is tried once, between letters.
 */
export class SpecialSpacing {
  readonly #vocabulary: Vocabulary;
  readonly #known = new Map<number, Spacing>();

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  of(id: number, text: string): Spacing {
    let spacing = this.#known.get(id);
    if (spacing === undefined) {
      spacing = {
        dropsBefore: this.#isSame(`x ${text}`, `x${text}`),
        dropsAfter: this.#isSame(`${text} x`, `${text}x`),
      };
      this.#known.set(id, spacing);
    }
    return spacing;
  }

  #isSame(first: string, second: string): boolean {
    const [a, b] = [first, second].map((text) =>
      this.#vocabulary.tokenize(text, { addSpecial: false, parseSpecial: true }).join(),
    );
    return a === b;
  }
}
