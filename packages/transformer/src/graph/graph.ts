/**
 * Tensor expressions. A `Value` is the result of one operation; nothing is computed until a session runs.
 *
 * Shapes are symbolic: a string names a run-time size (`T`) or a multiple of one (`3T`). Mistakes are
 * programming errors, so they throw plain assertions while the graph is built.
 */
import assert from 'node:assert/strict';
import type { Dim, ElementType } from './onnx-writer.ts';

export type Shape = readonly Dim[];

export type Operation =
  | { readonly kind: 'input'; readonly name: string }
  | { readonly kind: 'saved'; readonly name: string }
  | { readonly kind: 'constant'; readonly value: number }
  | { readonly kind: 'add' | 'sub' | 'mul' }
  | { readonly kind: 'log' | 'sigmoid' | 'silu' | 'softmax' | 'concat' | 'inverseRms' | 'gatherRows' }
  | { readonly kind: 'rmsNorm'; readonly epsilon: number }
  | { readonly kind: 'rope'; readonly numHeads: number | null }
  | { readonly kind: 'slice'; readonly start: number; readonly end: number }
  | { readonly kind: 'clip' | 'isWithin'; readonly least: number; readonly most: number }
  | { readonly kind: 'matmul'; readonly transposeA: boolean; readonly transposeB: boolean; readonly scale: number }
  | { readonly kind: 'product'; readonly matrix: string; readonly isTransposed: boolean; readonly dims: ProductDims }
  | { readonly kind: 'transpose'; readonly permutation: readonly number[] }
  | { readonly kind: 'reshape' }
  | { readonly kind: 'reduceSum' | 'reduceMax'; readonly axes: readonly number[] };

export interface ProductDims {
  readonly out: Dim;
  readonly in: Dim;
}

export interface Value {
  readonly operation: Operation;
  readonly inputs: readonly Value[];
  readonly shape: Shape;
  readonly type: ElementType;
}

const value = (operation: Operation, inputs: readonly Value[], shape: Shape, type: ElementType = 'float32'): Value => ({
  operation,
  inputs,
  shape,
  type,
});

export const input = (name: string, shape: Shape, type: ElementType = 'float32'): Value =>
  value({ kind: 'input', name }, [], shape, type);

/** A backward graph may receive it as an input of that name instead of recomputing it. @see compileGraph */
export const saved = (name: string, x: Value): Value => value({ kind: 'saved', name }, [x], x.shape);

export const constant = (scalar: number): Value => value({ kind: 'constant', value: scalar }, [], []);

export const add = (a: Value, b: Value): Value => value({ kind: 'add' }, [a, b], broadcast(a.shape, b.shape));
export const sub = (a: Value, b: Value): Value => value({ kind: 'sub' }, [a, b], broadcast(a.shape, b.shape));
export const mul = (a: Value, b: Value): Value => value({ kind: 'mul' }, [a, b], broadcast(a.shape, b.shape));
export const log = (x: Value): Value => value({ kind: 'log' }, [x], x.shape);
export const sigmoid = (x: Value): Value => value({ kind: 'sigmoid' }, [x], x.shape);

/** Softmax over the last axis, with the maximum subtracted first. */
export const softmax = (x: Value): Value => value({ kind: 'softmax' }, [x], x.shape);

/** x · sigmoid(x). */
export const silu = (x: Value): Value => value({ kind: 'silu' }, [x], x.shape);

const GELU_SLOPE = 2 * Math.sqrt(2 / Math.PI);

/** x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))), as x · sigmoid of twice the argument. */
export const gelu = (x: Value): Value =>
  mul(x, sigmoid(mul(x, add(constant(GELU_SLOPE), mul(constant(GELU_SLOPE * 0.044715), mul(x, x))))));

/** Numbers below `least` become it, and those above `most` that. */
export const clip = (x: Value, least: number, most: number): Value =>
  value({ kind: 'clip', least, most }, [x], x.shape);
/** 1 for numbers that {@link clip} keeps, 0 for others. */
export const isWithin = (x: Value, least: number, most: number): Value =>
  value({ kind: 'isWithin', least, most }, [x], x.shape);

const [GATE_SLOPE, LIMIT] = [1.702, 7];

/** (u + 1) · g · sigmoid(1.702 g), with g at most 7 and u between -7 and 7. @see transformers, `GptOssExperts` */
export function clampedGate(gate: Value, up: Value): Value {
  const [g, u] = [clip(gate, -Infinity, LIMIT), clip(up, -LIMIT, LIMIT)];
  return mul(add(u, constant(1)), mul(g, sigmoid(mul(g, constant(GATE_SLOPE)))));
}

/** Joins along the last axis. */
export function concat(parts: readonly Value[]): Value {
  const [first] = parts;
  assert(first !== undefined, 'concat of nothing');
  if (parts.length === 1) return first;
  const leading = first.shape.slice(0, -1);
  for (const part of parts) assert.deepEqual(part.shape.slice(0, -1), leading, 'concat: leading axes differ');
  return value({ kind: 'concat' }, parts, [...leading, parts.reduce((sum, part) => sum + width(part), 0)]);
}

/** Selects columns start ≤ i < end of the last axis. */
export const slice = (x: Value, start: number, end: number): Value =>
  start === 0 && end === width(x)
    ? x
    : value({ kind: 'slice', start, end }, [x], [...x.shape.slice(0, -1), end - start]);

/** x / √(mean(x²) + epsilon) · weight, over the last axis; weight [H]. */
export const rmsNorm = (x: Value, weight: Value, epsilon: number): Value =>
  value({ kind: 'rmsNorm', epsilon }, [x, weight], x.shape);

/** Shape [..., 1]: 1 / √(mean(x²) + epsilon) of the input of an `rmsNorm`, which computes it anyway. */
export const inverseRms = (norm: Value): Value =>
  value({ kind: 'inverseRms' }, [norm], [...norm.shape.slice(0, -1), 1]);

/**
 * Rotates the first R columns of each head by its token's angles; pairs are (j, j + R/2).
 *
 * @param x [1, T, heads·D]
 * @param cos [T, R/2]
 * @param sin [T, R/2]
 * @param numHeads null: R is D, the width of a head
 */
export const rope = (x: Value, cos: Value, sin: Value, numHeads: number | null = null): Value =>
  value({ kind: 'rope', numHeads }, [x, cos, sin], x.shape);

/**
 * Computes scale · op(a) · op(b) over the last two axes, where op is an optional transposition. Leading axes
 * must be equal.
 */
export function matmul(
  a: Value,
  b: Value,
  options: { transposeA?: boolean; transposeB?: boolean; scale?: number } = {},
): Value {
  const { transposeA = false, transposeB = false, scale = 1 } = options;
  const [m, innerA] = lastTwo(a.shape, transposeA);
  const [innerB, n] = lastTwo(b.shape, transposeB);
  assert(
    innerA === innerB,
    `matmul: inner axes ${innerA} and ${innerB} differ ([${a.shape.join()}] · [${b.shape.join()}])`,
  );
  assert.deepEqual(a.shape.slice(0, -2), b.shape.slice(0, -2), 'matmul: leading axes differ');
  return value({ kind: 'matmul', transposeA, transposeB, scale }, [a, b], [...a.shape.slice(0, -2), m, n]);
}

/**
 * Computes x · Wᵀ, or x · W if transposed, in the caller of a `CutSession`.
 *
 * @param x [rows, in], or [rows, out] if transposed
 */
export function product(x: Value, matrix: string, dims: ProductDims, isTransposed = false): Value {
  const [from, to] = isTransposed ? [dims.out, dims.in] : [dims.in, dims.out];
  assert.deepEqual(
    x.shape.slice(1),
    [from],
    `product by ${matrix}: [${x.shape.join()}] has another width than ${from}`,
  );
  return value({ kind: 'product', matrix, isTransposed, dims }, [x], [x.shape[0]!, to]);
}

export function transpose(x: Value, permutation: readonly number[]): Value {
  assert.deepEqual(
    permutation.toSorted((a, b) => a - b),
    [...x.shape.keys()],
    'transpose: not a permutation of the axes',
  );
  return value(
    { kind: 'transpose', permutation },
    [x],
    permutation.map((axis) => x.shape[axis]!),
  );
}

/** Changes the place of one run-time size at most; the caller guarantees equal element counts. */
export const reshape = (x: Value, shape: Shape): Value => value({ kind: 'reshape' }, [x], shape, x.type);

/** Reduced axes keep size 1. */
export const reduceSum = (x: Value, axes: readonly number[]): Value => reduce('reduceSum', x, axes);
export const reduceMax = (x: Value, axes: readonly number[]): Value => reduce('reduceMax', x, axes);

function reduce(kind: 'reduceSum' | 'reduceMax', x: Value, axes: readonly number[]): Value {
  const positive = axes.map((axis) => (axis < 0 ? axis + x.shape.length : axis));
  return value(
    { kind, axes: positive },
    [x],
    x.shape.map((dim, axis) => (positive.includes(axis) ? 1 : dim)),
  );
}

export const gatherRows = (x: Value, indices: Value): Value =>
  value({ kind: 'gatherRows' }, [x, indices], [...indices.shape, ...x.shape.slice(1)]);

/** NumPy broadcasting of symbolic shapes. */
export function broadcast(a: Shape, b: Shape): Shape {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, axis) => {
    const x = a[axis - rank + a.length] ?? 1;
    const y = b[axis - rank + b.length] ?? 1;
    assert(x === y || x === 1 || y === 1, `shapes [${a.join()}] and [${b.join()}] do not broadcast`);
    return x === 1 ? y : x;
  });
}

/** Requires a known size. */
function width(x: Value): number {
  const size = x.shape.at(-1);
  assert(typeof size === 'number', `the last axis of [${x.shape.join()}] is not known`);
  return size;
}

function lastTwo(shape: Shape, transposed: boolean): [Dim, Dim] {
  const [rows, columns] = shape.slice(-2);
  assert(rows !== undefined && columns !== undefined, `matmul needs two axes, got [${shape.join()}]`);
  return transposed ? [columns, rows] : [rows, columns];
}
