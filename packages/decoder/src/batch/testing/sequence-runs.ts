import { DecoderBatch } from '../decoder-batch.ts';
import type { PagedDecoder } from '../paged-decoder.ts';

export const tokensOf = (length: number): number[] => Array.from({ length }, (_, i) => (37 * i + 5) % 256);
export const TOKENS: readonly number[] = tokensOf(40);
export const OTHERS: readonly number[] = TOKENS.map((token) => (token + 91) % 256);

interface Piece {
  readonly sequence: number;
  readonly tokens: readonly number[];
  readonly from: number;
  readonly to: number;
  /** First token whose logits are wanted. Default: the first. */
  readonly wantsFrom?: number;
  /** Token whose state is kept. Default: none. */
  readonly keeps?: number;
}

/** Copies of the logits of a batch, which is empty afterwards. */
export function copiedLogits<Adapter extends object>(
  decoder: PagedDecoder,
  batch: DecoderBatch<Adapter>,
): Float32Array[] {
  const { numLogits } = batch;
  const rows = decoder.run(batch);
  const copies = Array.from({ length: numLogits }, (_, i) => rows.row(i).slice());
  batch.clear();
  return copies;
}

/** Logits after each wanted token of the pieces, which are one batch. */
export function compute(decoder: PagedDecoder, ...pieces: readonly Piece[]): Float32Array[][] {
  const batch = new DecoderBatch(decoder.batchTokens);
  for (const { sequence, tokens, from, to, wantsFrom = 0, keeps } of pieces)
    for (let position = from; position < to; position++)
      batch.add({
        token: tokens[position]!,
        position,
        sequence,
        wantsLogits: position >= wantsFrom,
        keepsState: position === keeps,
      });
  const rows = copiedLogits(decoder, batch);
  let row = 0;
  return pieces.map(({ from, to, wantsFrom = 0 }) =>
    Array.from({ length: to - Math.max(from, wantsFrom) }, () => rows[row++]!),
  );
}

export const whole = (decoder: PagedDecoder, sequence: number, tokens: readonly number[]): Float32Array[] =>
  compute(decoder, { sequence, tokens, from: 0, to: tokens.length })[0]!;

/** Logits of {@link TOKENS} as sequence 1, in chunks of `size` and next to another prompt, sequence 2. */
export function inChunks(decoder: PagedDecoder, size: number): Float32Array[] {
  for (const sequence of [1, 2]) decoder.forget(sequence, 0);
  const found: Float32Array[] = [];
  for (let from = 0; from < TOKENS.length; from += size) {
    const to = Math.min(from + size, TOKENS.length);
    const pieces = [TOKENS, OTHERS].map((tokens, index) => ({ sequence: index + 1, tokens, from, to }));
    found.push(...compute(decoder, ...pieces)[0]!);
  }
  return found;
}

/**
 * Logits after sequence 0, whose first `length` tokens sequences 1 and 2 share: of the rest of `mixed` and of
 * {@link TOKENS} as 1 and 2, and of one more token of 0 (`own`) and of 2 (`copied`).
 */
export function apart(decoder: PagedDecoder, length: number, mixed: readonly number[]) {
  const to = TOKENS.length;
  const found = compute(
    decoder,
    { sequence: 1, tokens: mixed, from: length, to },
    { sequence: 2, tokens: TOKENS, from: length, to },
  );
  const next = { tokens: [...TOKENS, 7], from: to, to: to + 1 };
  const [own, copied] = compute(decoder, { sequence: 0, ...next }, { sequence: 2, ...next });
  return { found, own, copied };
}
