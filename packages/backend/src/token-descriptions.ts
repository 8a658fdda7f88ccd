import type { TokenDescription } from './sample-event.ts';

export interface TokenTexts {
  tokenBytes(id: number): Iterable<number>;
  tokenText(id: number): string;
}

export class TokenDescriptions {
  readonly #texts: TokenTexts | null;
  readonly #descriptions = new Map<number, TokenDescription>();

  /** @param texts null: tokens are ids, their bytes and texts empty */
  constructor(texts: TokenTexts | null) {
    this.#texts = texts;
  }

  of(id: number): TokenDescription {
    let face = this.#descriptions.get(id);
    if (face === undefined) {
      const bytes = this.#texts?.tokenBytes(id) ?? [];
      face = { id, bytes: Array.from(bytes), text: this.#texts?.tokenText(id) ?? '' };
      this.#descriptions.set(id, face);
    }
    return face;
  }
}
