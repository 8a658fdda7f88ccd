import type { EndTokens, SampleParams } from '@trainyard/backend';
import type { KeptTokens } from '@trainyard/protocol/fields';
import { stopIdsOf } from '../wire/request-fields.ts';

/** Masks set by the request itself: allowed ids, and the minimum length before an end. */
export class RequestMask {
  readonly #allowed: ReadonlySet<number> | null;
  readonly #ends: ReadonlySet<number>;
  readonly #minTokens: number;
  readonly #early: KeptTokens;
  readonly #late: KeptTokens | null;

  constructor(params: SampleParams, { ends, vocabSize }: { readonly ends: EndTokens; readonly vocabSize: number }) {
    this.#allowed = params.allowedTokenIds && new Set(params.allowedTokenIds);
    // vLLM masks its end token even if `ignore_eos` lets a reply continue after it.
    const endIds = [...stopIdsOf(params, ends), ends.eosTokenId];
    this.#ends = new Set(endIds.filter((id) => id >= 0 && id < vocabSize));
    this.#minTokens = params.minTokens;
    this.#late = this.#allowed && ascending([...this.#allowed], false);
    this.#early =
      this.#allowed === null
        ? ascending([...this.#ends], true)
        : ascending(
            [...this.#allowed].filter((id) => !this.#ends.has(id)),
            false,
          );
  }

  /** Tokens left at a place of the reply; null: all. */
  keptAt(place: number): KeptTokens | null {
    return this.#masksEnds(place) ? this.#early : this.#late;
  }

  keepsAt(place: number, id: number): boolean {
    return (this.#allowed?.has(id) ?? true) && !(this.#masksEnds(place) && this.#ends.has(id));
  }

  #masksEnds(place: number): boolean {
    return place < this.#minTokens && this.#ends.size > 0;
  }
}

function ascending(ids: readonly number[], isComplement: boolean): KeptTokens {
  return { isComplement, ids: Int32Array.from(ids).toSorted() };
}
