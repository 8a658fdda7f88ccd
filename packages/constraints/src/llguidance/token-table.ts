import type { ConstraintVocabulary } from '../contract/vocabulary.ts';

export interface PackedTokens {
  /** [V] bytes of each token; 0 for one that no text contains */
  readonly lengths: Uint32Array;
  /** bytes of all tokens, contiguous */
  readonly bytes: Uint8Array;
  /** tokens that end a completion, the usual one first */
  readonly endTokenIds: Uint32Array;
}

export interface TokenTable {
  readonly tokens: PackedTokens;
  /** ids of the control tokens by their text */
  readonly controlTokens: ReadonlyMap<string, number>;
}

/** Prefix of a control token's text; it occurs in no UTF-8, so text never becomes the token. */
const CONTROL_MARKER = 0xff;

export function packVocabulary(vocabulary: ConstraintVocabulary): TokenTable {
  const { vocabSize } = vocabulary;
  const lengths = new Uint32Array(vocabSize);
  const controlTokens = new Map<string, number>();
  const tokens: Uint8Array[] = [];
  for (let id = 0; id < vocabSize; id++) {
    const bytes = vocabulary.tokenBytes(id);
    let token = bytes;
    if (vocabulary.isControl(id)) {
      token = Uint8Array.of(CONTROL_MARKER, ...bytes);
      controlTokens.set(new TextDecoder().decode(bytes), id);
    } else if (bytes[0] === CONTROL_MARKER) {
      token = new Uint8Array(0); // the byte 0xff: no text contains it
    }
    lengths[id] = token.length;
    tokens.push(token);
  }
  const endTokenIds = Uint32Array.from(endTokensOf(vocabulary));
  return { tokens: { lengths, bytes: new Uint8Array(Buffer.concat(tokens)), endTokenIds }, controlTokens };
}

/** Tokens that end a completion, the usual one first. @throws {RangeError} for one that is not in the vocabulary */
export function endTokensOf({ vocabSize, eosTokenId, endTokenIds }: ConstraintVocabulary): ReadonlySet<number> {
  const ids = new Set([eosTokenId, ...endTokenIds]);
  for (const id of ids)
    if (!(id < vocabSize)) throw new RangeError(`end token ${id} is not one of ${vocabSize} tokens`);
  return ids;
}
