/**
 * Reverse-mode differentiation: the gradient of an expression is another expression. Only values that depend on
 * the requested ones are differentiated, so frozen weights cost nothing.
 */
import assert from 'node:assert/strict';
import type { Shape, Value } from './graph.ts';
import {
  add,
  constant,
  inverseRms,
  isWithin,
  matmul,
  mul,
  product,
  reduceSum,
  reshape,
  rope,
  sigmoid,
  silu,
  slice,
  sub,
  transpose,
} from './graph.ts';

/**
 * @param seeds ∂loss/∂output for each output
 * @param sources inputs or any intermediate
 * @returns ∂loss/∂source in the order of `sources`
 */
export function gradients(seeds: ReadonlyMap<Value, Value>, sources: readonly Value[]): Value[] {
  const order = topologicalOrder([...seeds.keys()]);
  const wanted = new Set(sources);
  const depends = new Set<Value>();
  for (const node of order) if (wanted.has(node) || node.inputs.some((x) => depends.has(x))) depends.add(node);

  const gradient = new Map<Value, Value>();
  const accumulate = (node: Value, part: Value) => {
    assert.deepEqual(part.shape, node.shape, `gradient of ${node.operation.kind} has the wrong shape`);
    const sum = gradient.get(node);
    gradient.set(node, sum === undefined ? part : add(sum, part));
  };
  for (const [output, seed] of seeds) accumulate(output, seed);
  for (const node of order.reverse()) {
    const upstream = gradient.get(node);
    if (upstream === undefined || !depends.has(node)) continue;
    node.inputs.forEach((x, index) => {
      if (depends.has(x)) accumulate(x, vectorJacobianProduct(node, index, upstream));
    });
  }
  return sources.map((source) => {
    const result = gradient.get(source);
    assert(result !== undefined, `no output depends on ${JSON.stringify(source.operation)}`);
    return result;
  });
}

export function topologicalOrder(outputs: readonly Value[], stopAt: (node: Value) => boolean = () => false): Value[] {
  const order: Value[] = [];
  const seen = new Set<Value>();
  const visit = (node: Value) => {
    if (seen.has(node)) return;
    seen.add(node);
    if (!stopAt(node)) node.inputs.forEach(visit);
    order.push(node);
  };
  outputs.forEach(visit);
  return order;
}

/** ∂loss/∂inputs[index], given `dy` = ∂loss/∂node. */
function vectorJacobianProduct(node: Value, index: number, dy: Value): Value {
  const { operation } = node;
  const [a, b] = node.inputs as readonly [Value, Value];
  const target = node.inputs[index]!.shape;
  switch (operation.kind) {
    case 'saved':
      return dy;
    case 'add':
      return sumTo(dy, target);
    case 'sub':
      return sumTo(index === 0 ? dy : mul(dy, constant(-1)), target);
    case 'mul':
      return sumTo(mul(dy, index === 0 ? b : a), target);
    case 'sigmoid':
      return mul(dy, mul(node, sub(constant(1), node)));
    case 'softmax': {
      const weighted = mul(dy, node);
      return sub(weighted, mul(node, reduceSum(weighted, [-1])));
    }
    case 'silu': {
      const gate = sigmoid(a);
      return mul(dy, add(gate, mul(silu(a), sub(constant(1), gate))));
    }
    case 'clip':
      return mul(dy, isWithin(a, operation.least, operation.most));
    case 'concat': {
      const start = node.inputs.slice(0, index).reduce((sum, x) => sum + Number(x.shape.at(-1)), 0);
      return slice(dy, start, start + Number(target.at(-1)));
    }
    case 'rmsNorm': {
      assert(index === 0, 'norm weights are frozen');
      const r = inverseRms(node);
      const scaled = mul(dy, b);
      // ∂r/∂x = -r³ · x / H
      const share = mul(reduceSum(mul(scaled, a), [-1]), mul(mul(r, mul(r, r)), constant(-1 / Number(target.at(-1)))));
      return add(mul(scaled, r), mul(a, share));
    }
    case 'rope':
      assert(index === 0, 'rope tables are frozen');
      return rope(dy, b, mul(node.inputs[2]!, constant(-1)), operation.numHeads);
    case 'matmul': {
      const { transposeA, transposeB, scale } = operation;
      if (index === 0) {
        return transposeA
          ? matmul(b, dy, { transposeA: transposeB, transposeB: true, scale })
          : matmul(dy, b, { transposeB: !transposeB, scale });
      }
      return transposeB
        ? matmul(dy, a, { transposeA: true, transposeB: transposeA, scale })
        : matmul(a, dy, { transposeA: !transposeA, scale });
    }
    case 'product':
      return product(dy, operation.matrix, operation.dims, !operation.isTransposed);
    case 'transpose':
      return transpose(
        dy,
        operation.permutation.map((_, axis) => operation.permutation.indexOf(axis)),
      );
    case 'reshape':
      return reshape(dy, target);
    case 'reduceSum':
    case 'reduceMax':
    case 'gatherRows':
    case 'isWithin':
    case 'inverseRms':
    case 'slice':
    case 'log':
    case 'input':
    case 'constant':
      throw new assert.AssertionError({ message: `${operation.kind} is not differentiated in any layer graph` });
    default:
      return operation satisfies never;
  }
}

/** Undoes broadcasting: sums over the axes that `shape` lacks or has with size 1. */
function sumTo(x: Value, shape: Shape): Value {
  const extra = x.shape.length - shape.length;
  const axes = [...x.shape.keys()].filter((axis) => axis < extra || (shape[axis - extra] === 1 && x.shape[axis] !== 1));
  const sum = axes.length === 0 ? x : reduceSum(x, axes);
  return extra === 0 ? sum : reshape(sum, shape);
}
