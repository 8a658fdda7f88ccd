import type { TokenFace } from './sample-event.ts';

/** What tokens say. */
export interface TokenTexts {
  tokenBytes(id: number): Iterable<number>;
  tokenText(id: number): string;
}

/** Remembers each token's bytes and text. */
export class TokenFaces {
  readonly #texts: TokenTexts | null;
  readonly #faces = new Map<number, TokenFace>();

  /** @param texts null: tokens are ids, their bytes and texts empty */
  constructor(texts: TokenTexts | null) {
    this.#texts = texts;
  }

  of(id: number): TokenFace {
    let face = this.#faces.get(id);
    if (face === undefined) {
      const bytes = this.#texts?.tokenBytes(id) ?? [];
      face = { id, bytes: Array.from(bytes), text: this.#texts?.tokenText(id) ?? '' };
      this.#faces.set(id, face);
    }
    return face;
  }
}
