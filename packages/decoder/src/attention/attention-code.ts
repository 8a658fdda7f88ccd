import { exponential4 } from '../wasm/exponential.ts';
import * as wasm from '../wasm/wasm-code.ts';
import type { Code, WasmFunction } from '../wasm/wasm-code.ts';

/** Tokens of a page. Four vectors of keys, so that a score is a lane and no sum goes across lanes. */
export const PAGE_TOKENS = 16;
/** Most query heads that one call takes. */
export const MAX_QUERY_HEADS = 3;

const VECTORS = PAGE_TOKENS / 4;
/** Vectors of each head that are summed at once. The registers hold eight sums beside what is multiplied: three heads of four vectors measured half as fast. */
const atOnce = (numHeads: number): number => (numHeads === 3 ? 2 : VECTORS);
const ROW_BYTES = PAGE_TOKENS * 4;

/**
 * Attention of one token, for the query heads that share a key head, over pages of keys and values.
 *
 * A page holds for each key head the keys as [D, 16] and the values as [16, D], float32. Scores and outputs are summed in the order of the positions, in the
 * same lanes wherever a page lies and whatever else is computed: equal tokens behind equal tokens have equal outputs to the bit.
 */
export interface AttentionKernel {
  /**
   * @param q address of [heads, D]
   * @param o address of [heads, D]
   * @param pages address of the pages' offsets, one i32 each
   * @param numKeys at least 1
   * @param keys address that a page's offset is added to for its keys of this key head
   * @param values the same for its values
   * @param scores address of room for [pages, heads, 16]
   * @param scale of the scores
   */
  (
    q: number,
    o: number,
    pages: number,
    numKeys: number,
    keys: number,
    values: number,
    scores: number,
    scale: number,
  ): void;
}

export const kernelName = (numHeads: number): string => `attend${numHeads}`;

/** D must be a multiple of it. */
export const HEAD_GRANULARITY = 4;

/** A module with a kernel for 1 to {@link MAX_QUERY_HEADS} query heads. @param headSize D */
export function attentionModule(headSize: number): Uint8Array<ArrayBuffer> {
  if (headSize % HEAD_GRANULARITY !== 0)
    throw new RangeError(`heads of ${headSize} are not a multiple of ${HEAD_GRANULARITY}`);
  const functions = Array.from({ length: MAX_QUERY_HEADS }, (_, index) => attentionFunction(headSize, index + 1));
  return wasm.encodeModule(functions, { isShared: true });
}

// Parameters and locals of the kernel, in their order.
const [Q, O, PAGES, NUM_KEYS, KEYS, VALUES, SCORES, SCALE] = [0, 1, 2, 3, 4, 5, 6, 7];
const [PAGES_END, SCORES_END, PAGE, SCORE, A, B, A_END, COUNT] = [8, 9, 10, 11, 12, 13, 14, 15];
/** Once scores are computed: where those of the last page end, and the last page itself. */
const [KEYS_END, LAST_PAGE] = [COUNT, PAGES_END];
const FIRST_VECTOR = 16;

function attentionFunction(headSize: number, numHeads: number): WasmFunction {
  const { I32, F32, V128 } = wasm;
  return {
    name: kernelName(numHeads),
    parameters: [I32, I32, I32, I32, I32, I32, I32, F32],
    locals: [
      [8, I32],
      [numHeads * VECTORS + 2 * numHeads + 1, V128],
    ],
    code: wasm.code(
      prepare(numHeads),
      scoresCode(headSize, numHeads),
      softmaxCode(numHeads),
      outputCode(headSize, numHeads),
    ),
  };
}

/** Vector locals: sums by head and vector, then one a head that is read in every lane, then the vector that all heads share. */
const places = (numHeads: number) => ({
  sum: (head: number, vector: number) => FIRST_VECTOR + head * VECTORS + vector,
  splat: (head: number) => FIRST_VECTOR + numHeads * VECTORS + head,
  /** 1 / Σ exp of a head. */
  weight: (head: number) => FIRST_VECTOR + numHeads * VECTORS + numHeads + head,
  shared: FIRST_VECTOR + numHeads * VECTORS + 2 * numHeads,
});

const { code, get, set, i32, addI32, advance, repeatWhileBelow } = wasm;
const heads = (numHeads: number, each: (head: number) => Code): Code =>
  code(...Array.from({ length: numHeads }, (_, head) => each(head)));
const vectors = (each: (vector: number) => Code, count = VECTORS): Code => heads(count, each);

/** Where pages and scores end. */
function prepare(numHeads: number): Code {
  const numPages = code(get(NUM_KEYS), i32(PAGE_TOKENS - 1), addI32, i32(4), wasm.shiftRightI32);
  return code(
    code(numPages, set(COUNT)),
    code(get(COUNT), i32(4), wasm.multiplyI32, get(PAGES), addI32, set(PAGES_END)),
    code(get(COUNT), i32(numHeads * ROW_BYTES), wasm.multiplyI32, get(SCORES), addI32, set(SCORES_END)),
  );
}

/** Adds `lane · vector` of every head to its first `count` sums; the vectors lie at local `at` and `offset`. */
function multiplyAdd(numHeads: number, count: number, lane: (head: number) => Code, at: number, offset: number): Code {
  const { sum, splat, shared } = places(numHeads);
  return code(
    heads(numHeads, (head) => code(lane(head), set(splat(head)))),
    vectors(
      (vector) =>
        code(
          code(get(at), wasm.load4(offset + 16 * vector), set(shared)),
          heads(numHeads, (head) =>
            code(get(splat(head)), get(shared), get(sum(head, vector)), wasm.multiplyAdd4, set(sum(head, vector))),
          ),
        ),
      count,
    ),
  );
}

function clearSums(numHeads: number): Code {
  const { sum } = places(numHeads);
  return heads(numHeads, (head) => vectors((vector) => code(wasm.fill4(0), set(sum(head, vector)))));
}

/** scores = scale · q · keys, page by page; behind the last key -Infinity. */
function scoresCode(headSize: number, numHeads: number): Code {
  const { sum } = places(numHeads);
  const count = atOnce(numHeads);
  const unrolled = HEAD_GRANULARITY;
  const query = (head: number, step: number): Code => code(get(A), wasm.loadSplat4(4 * (head * headSize + step)));
  return code(
    code(get(PAGES), set(PAGE), get(SCORES), set(SCORE)),
    repeatWhileBelow(
      PAGE,
      PAGES_END,
      code(
        code(get(Q), i32(4 * headSize), addI32, set(A_END)),
        ...Array.from({ length: VECTORS / count }, (_, part) =>
          code(
            code(get(PAGE), wasm.loadI32(0), get(KEYS), addI32, set(B)),
            code(get(Q), set(A)),
            clearSums(numHeads),
            repeatWhileBelow(
              A,
              A_END,
              code(
                ...Array.from({ length: unrolled }, (_, step) =>
                  multiplyAdd(numHeads, count, (head) => query(head, step), B, step * ROW_BYTES + 16 * part * count),
                ),
                advance(B, unrolled * ROW_BYTES),
                advance(A, 4 * unrolled),
              ),
            ),
            heads(numHeads, (head) =>
              vectors(
                (vector) =>
                  code(
                    get(SCORE),
                    code(get(sum(head, vector)), get(SCALE), wasm.splat4, wasm.multiply4),
                    wasm.store4(head * ROW_BYTES + 16 * (vector + part * count)),
                  ),
                count,
              ),
            ),
          ),
        ),
        advance(SCORE, numHeads * ROW_BYTES),
        advance(PAGE, 4),
      ),
    ),
    // What lies behind the last key in its page.
    code(get(SCORES_END), i32(-numHeads * ROW_BYTES), addI32, set(SCORE)),
    code(get(NUM_KEYS), i32(PAGE_TOKENS - 1), addI32, i32(PAGE_TOKENS - 1), wasm.andI32, i32(1), addI32, set(COUNT)),
    code(get(COUNT), i32(4), wasm.multiplyI32, get(SCORE), addI32, set(A)),
    code(get(A), set(KEYS_END)),
    code(get(PAGES_END), i32(-4), addI32, set(LAST_PAGE)),
    code(get(SCORE), i32(ROW_BYTES), addI32, set(B)),
    wasm.whileBelow(
      A,
      B,
      code(
        heads(numHeads, (head) => code(get(A), wasm.f32(-Infinity), wasm.storeF32(head * ROW_BYTES))),
        advance(A, 4),
      ),
    ),
  );
}

/** scores = exp(scores - their maximum), and the weights 1 / Σ. */
function softmaxCode(numHeads: number): Code {
  const { sum, splat, weight, shared } = places(numHeads);
  const [total, maximum] = [sum(0, 0), sum(0, 1)];
  const lanes = (vector: number, joined: Code): Code =>
    code(
      code(get(vector), wasm.lane4(0), get(vector), wasm.lane4(1), joined),
      code(get(vector), wasm.lane4(2), get(vector), wasm.lane4(3), joined, joined),
    );
  const overPages = (body: Code): Code =>
    code(
      get(SCORES),
      set(SCORE),
      repeatWhileBelow(SCORE, SCORES_END, code(body, advance(SCORE, numHeads * ROW_BYTES))),
    );
  return heads(numHeads, (head) => {
    const at = (vector: number) => head * ROW_BYTES + 16 * vector;
    return code(
      code(wasm.fill4(-Infinity), set(maximum)),
      overPages(vectors((vector) => code(get(SCORE), wasm.load4(at(vector)), get(maximum), wasm.max4, set(maximum)))),
      code(lanes(maximum, wasm.maxF32), wasm.splat4, set(maximum)),
      code(wasm.fill4(0), set(total)),
      overPages(
        vectors((vector) =>
          code(
            code(get(SCORE), wasm.load4(at(vector)), get(maximum), wasm.subtract4, set(splat(0))),
            exponential4(splat(0), shared, sum(0, 2)),
            set(shared),
            code(get(SCORE), get(shared), wasm.store4(at(vector))),
            code(get(shared), get(total), wasm.add4, set(total)),
          ),
        ),
      ),
      code(wasm.f32(1), lanes(total, wasm.addF32), wasm.divideF32, wasm.splat4, set(weight(head))),
    );
  });
}

/**
 * o = weights · Σ scores · values, some features at a time. What lies behind the last key is not read: a page that had another owner may hold what is no number there,
 * and 0 times that is none either.
 */
function outputCode(headSize: number, numHeads: number): Code {
  const { sum, weight } = places(numHeads);
  const numVectors = headSize / HEAD_GRANULARITY;
  const count = [atOnce(numHeads), 2, 1].find((some) => numVectors % some === 0)!;
  const probability = (head: number, key: number): Code =>
    code(get(SCORE), wasm.loadSplat4(head * ROW_BYTES + 4 * key));
  const page = code(get(PAGE), wasm.loadI32(0), get(A), addI32, set(B));
  return code(
    code(get(VALUES), set(A), get(VALUES), i32(4 * headSize), addI32, set(A_END)),
    repeatWhileBelow(
      A,
      A_END,
      code(
        clearSums(numHeads),
        code(get(PAGES), set(PAGE), get(SCORES), set(SCORE)),
        wasm.whileBelow(
          PAGE,
          LAST_PAGE,
          code(
            page,
            ...Array.from({ length: PAGE_TOKENS }, (_, key) =>
              multiplyAdd(numHeads, count, (head) => probability(head, key), B, 4 * headSize * key),
            ),
            advance(SCORE, numHeads * ROW_BYTES),
            advance(PAGE, 4),
          ),
        ),
        page,
        repeatWhileBelow(
          SCORE,
          KEYS_END,
          code(
            multiplyAdd(numHeads, count, (head) => probability(head, 0), B, 0),
            advance(SCORE, 4),
            advance(B, 4 * headSize),
          ),
        ),
        heads(numHeads, (head) =>
          vectors(
            (vector) =>
              code(
                get(O),
                code(get(sum(head, vector)), get(weight(head)), wasm.multiply4),
                wasm.store4(4 * headSize * head + 16 * vector),
              ),
            count,
          ),
        ),
        advance(O, 16 * count),
        advance(A, 16 * count),
      ),
    ),
  );
}
