import { exponentials4 } from '../wasm/exponential.ts';
import * as wasm from '../wasm/wasm-code.ts';
import type { Code, WasmFunction } from '../wasm/wasm-code.ts';
import { gatherFunction } from './gather-code.ts';
import { HEAD_GRANULARITY, PAGE_SCORE_BYTES, PAGE_TOKENS, SCORE_BYTES } from './page-format.ts';

/** Maximum queries per call: two vectors of sums each are twelve, and V8 has registers for three more. */
export const MAX_QUERIES = 6;

const VECTORS = PAGE_TOKENS / 4;

/**
 * Steps of attention over pages. Addresses and sizes are in bytes.
 *
 * A page holds per key head the keys as [D, 16] and the values as [16, D], float32. Scores are [pages,
 * {@link TILE_QUERIES}, 16] for a tile and [queries, keys] for a prompt. Sums have a fixed order and lanes, so
 * equal prefixes give equal outputs to the bit in any tile.
 */
export interface AttentionSteps {
  /** Writes to = from · factor, [n] float32 up to `toEnd`, n a multiple of 4. */
  scale(from: number, to: number, toEnd: number, factor: number): void;
  /** Scores of all keys of the pages; indexed by the number of queries less 1. `queries` is [n, D]. */
  readonly scores: readonly PageStep[];
  /**
   * Writes scores = exp(score - maximum) for one query of a tile. Its weight, a float32, holds the score of its sink
   * (-Infinity: none), which belongs to maximum and sum, and becomes 1 / their sum.
   */
  softmax(scores: number, scoresEnd: number, weight: number, constants: number): void;
  softmaxOfRow(scores: number, scoresEnd: number, weight: number, constants: number): void;
  /** Sets [n] float32 up to `end` to `value`, n a positive multiple of 4. */
  fill(from: number, end: number, value: number): void;
  /** Adds Σ scores · values over all keys of the pages, which are of one part; `part` is [n, D]. */
  readonly values: readonly PageStep[];
  /** The same over the first keys of one page; `scoresEnd` is the end of the first query's scores. */
  readonly someValues: readonly ((part: number, values: number, scores: number, scoresEnd: number) => void)[];
  /**
   * Adds part to sums, [n] float32 up to `sumsEnd`, and clears it for the next {@link partTokens} keys. n is a
   * multiple of 4.
   */
  addPart(part: number, sums: number, sumsEnd: number): void;
  /** Writes to = sums · weight of each query, [n, D] up to `toEnd`. */
  weigh(sums: number, to: number, toEnd: number, weights: number): void;
  /**
   * Writes Σ 0 · x in each of four lanes over [n] float32 up to `end`: NaN if any is NaN or infinite. n is a
   * positive multiple of 4.
   */
  nullify(from: number, end: number, to: number): void;
  /**
   * Copies keys and values of the pages, [16, D] each, contiguously.
   *
   * @param keys as `base` of the other steps
   * @param values the same
   */
  gather(pages: number, pagesEnd: number, keys: number, values: number, toKeys: number, toValues: number): void;
}

/**
 * @param rows queries or sums
 * @param pages address of the pages' offsets, one i32 each
 * @param base address to which a page's offset is added
 * @param scores of the first query in the first page
 */
// oxlint-disable-next-line eslint/max-params -- a WebAssembly function
type PageStep = (rows: number, pages: number, pagesEnd: number, base: number, scores: number) => void;

const { code, get, set, i32, addI32, advance, repeat, repeatWhileBelow } = wasm;
const { I32, F32, V128 } = wasm;
const COUNTS = Array.from({ length: MAX_QUERIES }, (_, index) => index + 1);
/** A sum waits for its previous step: eight sums keep the processor busy, and twelve fit in registers. */
const atOnce = (numQueries: number): number => (numQueries <= 2 ? VECTORS : 2);

/** Module with the steps, exported by the names in {@link stepsOf}. @param headSize D */
export function attentionModule(headSize: number): Uint8Array<ArrayBuffer> {
  if (headSize % HEAD_GRANULARITY !== 0)
    throw new RangeError(`heads of ${headSize} are not a multiple of ${HEAD_GRANULARITY}`);
  const functions = [
    scaleFunction,
    ...COUNTS.map((count) => scoresFunction(headSize, count)),
    softmaxFunction('softmax', PAGE_SCORE_BYTES),
    softmaxFunction('softmaxOfRow', SCORE_BYTES),
    fillFunction,
    ...COUNTS.flatMap((count) => [valuesFunction(headSize, count), someValuesFunction(headSize, count)]),
    addPartFunction,
    weighFunction(headSize),
    nullifyFunction,
    gatherFunction(headSize),
  ];
  return wasm.encodeModule(functions, { isShared: true });
}

export function stepsOf(exported: Readonly<Record<string, (...addresses: number[]) => void>>): AttentionSteps {
  const { scale, softmax, softmaxOfRow, fill, addPart, weigh, nullify, gather } = exported;
  const byCount = (name: string) => COUNTS.map((count) => exported[`${name}${count}`]!);
  return {
    scale: scale!,
    softmax: softmax!,
    softmaxOfRow: softmaxOfRow!,
    fill: fill!,
    addPart: addPart!,
    weigh: weigh!,
    nullify: nullify!,
    gather: gather!,
    scores: byCount('scores'),
    values: byCount('values'),
    someValues: byCount('someValues'),
  };
}

const scaleFunction: WasmFunction = (() => {
  const [from, to, toEnd, factor, factors] = [0, 1, 2, 3, 4];
  return {
    name: 'scale',
    parameters: [I32, I32, I32, F32],
    locals: [[1, V128]],
    code: code(
      code(get(factor), wasm.splat4, set(factors)),
      repeatWhileBelow(
        to,
        toEnd,
        code(
          code(get(to), get(from), wasm.load4(0), get(factors), wasm.multiply4, wasm.store4(0)),
          advance(from, 16),
          advance(to, 16),
        ),
      ),
    ),
  };
})();

const fillFunction: WasmFunction = (() => {
  const [from, end, value, values] = [0, 1, 2, 3];
  return {
    name: 'fill',
    parameters: [I32, I32, F32],
    locals: [[1, V128]],
    code: code(
      code(get(value), wasm.splat4, set(values)),
      repeatWhileBelow(from, end, code(get(from), get(values), wasm.store4(0), advance(from, 16))),
    ),
  };
})();

const addPartFunction: WasmFunction = (() => {
  const [part, sums, sumsEnd] = [0, 1, 2];
  return {
    name: 'addPart',
    parameters: [I32, I32, I32],
    locals: [],
    code: repeatWhileBelow(
      sums,
      sumsEnd,
      code(
        code(get(sums), get(sums), wasm.load4(0), get(part), wasm.load4(0), wasm.add4, wasm.store4(0)),
        code(get(part), wasm.fill4(0), wasm.store4(0)),
        advance(part, 16),
        advance(sums, 16),
      ),
    ),
  };
})();

function weighFunction(headSize: number): WasmFunction {
  const [sums, to, toEnd, weights, headEnd, weight] = [0, 1, 2, 3, 4, 5];
  return {
    name: 'weigh',
    parameters: [I32, I32, I32, I32],
    locals: [
      [1, I32],
      [1, V128],
    ],
    code: repeatWhileBelow(
      to,
      toEnd,
      code(
        code(get(weights), wasm.loadSplat4(0), set(weight)),
        code(get(to), i32(4 * headSize), addI32, set(headEnd)),
        repeatWhileBelow(
          to,
          headEnd,
          code(
            code(get(to), get(sums), wasm.load4(0), get(weight), wasm.multiply4, wasm.store4(0)),
            advance(sums, 16),
            advance(to, 16),
          ),
        ),
        advance(weights, 4),
      ),
    ),
  };
}

const nullifyFunction: WasmFunction = (() => {
  const [from, end, to, sums] = [0, 1, 2, 3];
  return {
    name: 'nullify',
    parameters: [I32, I32, I32],
    locals: [[1, V128]],
    code: code(
      repeatWhileBelow(
        from,
        end,
        code(
          code(get(from), wasm.load4(0), wasm.fill4(0), wasm.multiply4, get(sums), wasm.add4, set(sums)),
          advance(from, 16),
        ),
      ),
      code(get(to), get(sums), wasm.store4(0)),
    ),
  };
})();

/** Vector locals of a function: sums by query and vector, shared vectors, and one number in all lanes. */
class Sums {
  readonly numLocals: number;
  readonly #first: number;
  readonly #numQueries: number;
  readonly #count: number;

  constructor(first: number, numQueries: number, count: number) {
    this.#first = first;
    this.#numQueries = numQueries;
    this.#count = count;
    this.numLocals = (numQueries + 1) * count + 1;
  }

  each(one: (sum: number, query: number, vector: number) => Code): Code {
    return repeat(this.#numQueries, (query) =>
      repeat(this.#count, (vector) => one(this.#first + query * this.#count + vector, query, vector)),
    );
  }

  /**
   * sum += number · vector.
   *
   * @param number pushes a query's number in all lanes
   * @param vector pushes a shared vector
   */
  multiplyAdd(number: (query: number) => Code, vector: (index: number) => Code): Code {
    const shared = (index: number): number => this.#first + this.#numQueries * this.#count + index;
    const splat = shared(this.#count);
    return code(
      repeat(this.#count, (index) => code(vector(index), set(shared(index)))),
      this.each((sum, query, index) =>
        code(
          index === 0 ? code(number(query), set(splat)) : [],
          code(get(splat), get(shared(index)), get(sum), wasm.multiplyAdd4, set(sum)),
        ),
      ),
    );
  }
}

function scoresFunction(headSize: number, numQueries: number): WasmFunction {
  const [queries, pages, pagesEnd, keys, scores, query, queryEnd, key] = [0, 1, 2, 3, 4, 5, 6, 7];
  const count = atOnce(numQueries);
  const sums = new Sums(8, numQueries, count);
  const part = (first: number): Code =>
    code(
      code(get(pages), wasm.loadI32(0), get(keys), addI32, set(key)),
      code(get(queries), set(query)),
      sums.each((sum) => code(wasm.fill4(0), set(sum))),
      repeatWhileBelow(
        query,
        queryEnd,
        code(
          repeat(HEAD_GRANULARITY, (step) =>
            sums.multiplyAdd(
              (index) => code(get(query), wasm.loadSplat4(4 * (index * headSize + step))),
              (vector) => code(get(key), wasm.load4(step * SCORE_BYTES + 16 * (first + vector))),
            ),
          ),
          advance(key, HEAD_GRANULARITY * SCORE_BYTES),
          advance(query, HEAD_GRANULARITY * 4),
        ),
      ),
      sums.each((sum, index, vector) =>
        code(get(scores), get(sum), wasm.store4(index * SCORE_BYTES + 16 * (first + vector))),
      ),
    );
  return {
    name: `scores${numQueries}`,
    parameters: [I32, I32, I32, I32, I32],
    locals: [
      [3, I32],
      [sums.numLocals, V128],
    ],
    code: code(
      code(get(queries), i32(4 * headSize), addI32, set(queryEnd)),
      repeatWhileBelow(
        pages,
        pagesEnd,
        code(
          repeat(VECTORS / count, (index) => part(index * count)),
          advance(scores, PAGE_SCORE_BYTES),
          advance(pages, 4),
        ),
      ),
    ),
  };
}

/** @param pageBytes from a query's scores in one page to those in the next */
function softmaxFunction(name: string, pageBytes: number): WasmFunction {
  const [from, end, weight, constants, scores] = [0, 1, 2, 3, 4];
  const x = [5, 6, 7, 8];
  const powers = [9, 10, 11, 12];
  const series = [13, 14, 15, 16];
  const [shared, maximum, total] = [17, 18, 19];
  const overPages = (body: Code): Code =>
    code(get(from), set(scores), repeatWhileBelow(scores, end, code(body, advance(scores, pageBytes))));
  const fold = (vectors: readonly number[], joined: Code): Code =>
    code(code(get(vectors[0]!), get(vectors[1]!), joined), code(get(vectors[2]!), get(vectors[3]!), joined, joined));
  return {
    name,
    parameters: [I32, I32, I32, I32],
    locals: [
      [1, I32],
      [15, V128],
    ],
    code: code(
      // Skips NaN scores; they show in the sum.
      repeat(VECTORS, (vector) => code(get(weight), wasm.loadSplat4(0), set(x[vector]!))),
      overPages(
        repeat(VECTORS, (vector) =>
          code(get(x[vector]!), get(scores), wasm.load4(16 * vector), wasm.greaterOf4, set(x[vector]!)),
        ),
      ),
      code(fold(x, wasm.greaterOf4), set(maximum)),
      code(wasm.acrossLanes(maximum, wasm.maxF32), wasm.splat4, set(maximum)),
      code(wasm.fill4(0), set(total)),
      overPages(
        code(
          repeat(VECTORS, (vector) =>
            code(get(scores), wasm.load4(16 * vector), get(maximum), wasm.subtract4, set(x[vector]!)),
          ),
          exponentials4({ constants, x, powers, series, shared }),
          repeat(VECTORS, (vector) => code(get(scores), get(x[vector]!), wasm.store4(16 * vector))),
          code(fold(x, wasm.add4), get(total), wasm.add4, set(total)),
        ),
      ),
      repeat(VECTORS, (vector) => code(get(weight), wasm.loadSplat4(0), get(maximum), wasm.subtract4, set(x[vector]!))),
      exponentials4({ constants, x, powers, series, shared }),
      code(get(weight), wasm.f32(1), wasm.acrossLanes(total, wasm.addF32), get(x[0]!), wasm.lane4(0), wasm.addF32),
      code(wasm.divideF32, wasm.storeF32(0)),
    ),
  };
}

/** Vectors of features that are processed at once for all queries; D is a multiple of them. */
const featureVectors = (headSize: number, numQueries: number): number =>
  [atOnce(numQueries), 2, 1].find((some) => (headSize / 4) % some === 0)!;

interface FeatureLoop {
  readonly headSize: number;
  readonly numQueries: number;
  /** Name without the number of queries. */
  readonly name: string;
  /** Number of addresses, the first that of the sums. */
  readonly numParameters: number;
  /** Locals: the advancing address of the values, its end, and the first local after the addresses. */
  readonly at: { readonly values: number; readonly valuesEnd: number; readonly end: number };
}

/**
 * Function over values, whose parameters are addresses.
 *
 * @param body adds to the sums of the features at `at.values`
 */
function overFeatures(
  { headSize, numQueries, name, numParameters, at }: FeatureLoop,
  body: (sums: Sums) => Code,
): WasmFunction {
  const count = featureVectors(headSize, numQueries);
  const sums = new Sums(at.end, numQueries, count);
  const address = 0;
  const place = (query: number, vector: number): number => 4 * headSize * query + 16 * vector;
  return {
    name: `${name}${numQueries}`,
    parameters: Array.from({ length: numParameters }, () => I32),
    locals: [
      [at.end - numParameters, I32],
      [sums.numLocals, V128],
    ],
    code: code(
      code(get(at.values), i32(4 * headSize), addI32, set(at.valuesEnd)),
      repeatWhileBelow(
        at.values,
        at.valuesEnd,
        code(
          sums.each((sum, query, vector) => code(get(address), wasm.load4(place(query, vector)), set(sum))),
          body(sums),
          sums.each((sum, query, vector) => code(get(address), get(sum), wasm.store4(place(query, vector)))),
          advance(address, 16 * count),
          advance(at.values, 16 * count),
        ),
      ),
    ),
  };
}

function valuesFunction(headSize: number, numQueries: number): WasmFunction {
  const [pages, pagesEnd, values, scores, valuesEnd, page, score, value, end] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
  const loop = { headSize, numQueries, name: 'values', numParameters: 5, at: { values, valuesEnd, end } };
  return overFeatures(loop, (sums) =>
    code(
      code(get(pages), set(page), get(scores), set(score)),
      repeatWhileBelow(
        page,
        pagesEnd,
        code(
          code(get(page), wasm.loadI32(0), get(values), addI32, set(value)),
          repeat(PAGE_TOKENS, (key) =>
            sums.multiplyAdd(
              (query) => code(get(score), wasm.loadSplat4(query * SCORE_BYTES + 4 * key)),
              (vector) => code(get(value), wasm.load4(4 * headSize * key + 16 * vector)),
            ),
          ),
          advance(score, PAGE_SCORE_BYTES),
          advance(page, 4),
        ),
      ),
    ),
  );
}

/** Reads no values after the last key of a page: a former owner may have left NaN there, and 0 times NaN is NaN. */
function someValuesFunction(headSize: number, numQueries: number): WasmFunction {
  const [values, scores, scoresEnd, valuesEnd, score, value, end] = [1, 2, 3, 4, 5, 6, 7];
  const loop = { headSize, numQueries, name: 'someValues', numParameters: 4, at: { values, valuesEnd, end } };
  return overFeatures(loop, (sums) =>
    code(
      code(get(scores), set(score), get(values), set(value)),
      repeatWhileBelow(
        score,
        scoresEnd,
        code(
          sums.multiplyAdd(
            (query) => code(get(score), wasm.loadSplat4(query * SCORE_BYTES)),
            (vector) => code(get(value), wasm.load4(16 * vector)),
          ),
          advance(score, 4),
          advance(value, 4 * headSize),
        ),
      ),
    ),
  );
}
