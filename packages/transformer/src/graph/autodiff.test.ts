import { expect, test } from 'vitest';
import { gradients, topologicalOrder } from './autodiff.ts';
import type { Value } from './graph.ts';
import {
  add,
  broadcast,
  clampedGate,
  clip,
  concat,
  constant,
  gelu,
  input,
  matmul,
  mul,
  reshape,
  rmsNorm,
  rope,
  saved,
  sigmoid,
  silu,
  softmax,
  sub,
  transpose,
} from './graph.ts';
import { GraphSession, float32 } from './session.ts';

// Central differences in float32: truncation ~ε² and rounding ~1e-7/ε balance near here.
const EPSILON = 1e-2;
const TOLERANCE = 2e-3;

let state = 7;
const random = () => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 31 - 1;
};
const randoms = (length: number) => Float32Array.from({ length }, random);
const sizeOf = (value: Value) => value.shape.reduce<number>((product, dim) => product * Number(dim), 1);

async function run(outputs: Record<string, Value>, values: ReadonlyMap<Value, Float32Array>, savedAsInputs = false) {
  const session = new GraphSession(outputs, { numThreads: 1, savedAsInputs });
  const feeds = Object.fromEntries(
    [...values].map(([node, data]) => [
      (node.operation as { name: string }).name,
      float32(data, node.shape as number[]),
    ]),
  );
  const results = session.run(feeds);
  session.close();
  return Object.fromEntries(Object.entries(results).map(([name, tensor]) => [name, tensor.data as Float32Array]));
}

/** Largest |analytic - numeric| over every element of every input of `y`. */
async function gradientError(y: Value, inputs: readonly Value[]): Promise<number> {
  const dy = input('dy', y.shape);
  const leaves = topologicalOrder([y]).filter((node) => node.operation.kind === 'input');
  const values = new Map([...leaves, dy].map((node) => [node, randoms(sizeOf(node))]));
  const analytic = await run(
    Object.fromEntries(gradients(new Map([[y, dy]]), inputs).map((gradient, index) => [`g${index}`, gradient])),
    values,
  );
  const session = new GraphSession({ y }, { numThreads: 1 });
  const loss = async () => {
    const feeds = Object.fromEntries(
      leaves.map((node) => [
        (node.operation as { name: string }).name,
        float32(values.get(node)!, node.shape as number[]),
      ]),
    );
    const result = session.run(feeds)['y']!.data as Float32Array;
    return result.reduce((sum, value, i) => sum + value * values.get(dy)![i]!, 0);
  };
  let worst = 0;
  for (const [index, node] of inputs.entries()) {
    const data = values.get(node)!;
    for (let i = 0; i < data.length; i++) {
      const original = data[i]!;
      data[i] = original + EPSILON;
      const above = await loss();
      data[i] = original - EPSILON;
      const below = await loss();
      data[i] = original;
      worst = Math.max(worst, Math.abs((above - below) / (2 * EPSILON) - analytic[`g${index}`]![i]!));
    }
  }
  session.close();
  return worst;
}

const a = input('a', [3, 4]);
const b = input('b', [3, 4]);
const row = input('row', [4]);
const column = input('column', [3, 1]);
const cube = input('cube', [2, 3, 4]);

const cos = input('cos', [3, 2]);
const sin = input('sin', [3, 2]);
const heads = input('heads', [1, 3, 8]);

const CASES: readonly [string, Value, readonly Value[]][] = [
  ['add', add(a, b), [a, b]],
  ['add, broadcast over rows', add(a, row), [a, row]],
  ['sub, broadcast on the left', sub(column, a), [column, a]],
  ['mul', mul(a, b), [a, b]],
  ['mul, broadcast over columns', mul(cube, column), [cube, column]],
  ['mul by a constant', mul(a, constant(-2.5)), [a]],
  ['a value used twice', add(mul(a, a), a), [a]],
  ['sigmoid', sigmoid(a), [a]],
  ['softmax', softmax(cube), [cube]],
  ['silu', silu(a), [a]],
  ['gelu', gelu(a), [a]],
  ['clip', clip(a, -0.4, 0.3), [a]],
  ['clampedGate', clampedGate(a, b), [a, b]],
  ['concat', mul(concat([a, column, b]), input('t', [3, 9])), [a, column, b]],
  ['rmsNorm', mul(rmsNorm(a, row, 1e-5), b), [a, b]],
  ['rope', mul(rope(heads, cos, sin), input('t', [1, 3, 8])), [heads]],
  ['a sum of products', add(matmul(a, input('x', [4, 4])), add(matmul(b, input('y0', [4, 4])), b)), [a, b]],
  ['transpose', mul(transpose(cube, [2, 0, 1]), input('t', [4, 2, 3])), [cube]],
  ['reshape', mul(reshape(cube, [6, 4]), input('t', [6, 4])), [cube]],
  ['saved', mul(saved('s', sigmoid(a)), a), [a]],
  ...[false, true].flatMap((transposeA) =>
    [false, true].flatMap((transposeB) =>
      [[], [2]].map((leading): [string, Value, readonly Value[]] => {
        const x = input('x', [...leading, ...(transposeA ? [5, 3] : [3, 5])]);
        const y = input('y0', [...leading, ...(transposeB ? [4, 5] : [5, 4])]);
        const name = `matmul ${leading.length + 2}-D${transposeA ? ', aᵀ' : ''}${transposeB ? ', bᵀ' : ''}`;
        return [name, matmul(x, y, { transposeA, transposeB, scale: 0.5 }), [x, y]];
      }),
    ),
  ),
];

test.each(CASES)('the gradient of %s equals finite differences', async (name, y, inputs) => {
  const error = await gradientError(y, inputs);
  console.log(`${name}: max |analytic - numeric| ${error.toExponential(1)}`);
  expect(error).toBeLessThan(TOLERANCE);
});

test('a saved value is an input of the backward graph, and its producer is not computed again', async () => {
  const weight = input('weight', [4, 4]);
  const hidden = saved('hidden', matmul(a, weight));
  const y = mul(hidden, sigmoid(hidden));
  const dy = input('dy', [3, 4]);
  const [dWeight] = gradients(new Map([[y, dy]]), [weight]);
  const values = new Map([a, weight, dy].map((node) => [node, randoms(sizeOf(node))]));
  const recomputed = (await run({ dWeight: dWeight! }, values))['dWeight']!;

  const forward = (await run({ hidden }, values))['hidden']!;
  const session = new GraphSession({ dWeight: dWeight! }, { numThreads: 1, savedAsInputs: true });
  expect(session.inputNames.toSorted()).toEqual(['a', 'dy', 'hidden']);
  const result = session.run({
    a: float32(values.get(a)!, [3, 4]),
    dy: float32(values.get(dy)!, [3, 4]),
    hidden: float32(forward, [3, 4]),
  });
  session.close();
  expect(Array.from(result['dWeight']!.data as Float32Array)).toEqual(Array.from(recomputed));
});

test('outputs are written into the tensors that were handed in, views included', async () => {
  const session = new GraphSession({ y: mul(a, constant(2)) }, { numThreads: 1 });
  const memory = new Float32Array(20);
  session.run(
    {
      a: float32(
        Float32Array.from({ length: 12 }, (_, i) => i),
        [3, 4],
      ),
    },
    { y: float32(memory.subarray(4, 16), [3, 4]) },
  );
  session.close();
  expect(Array.from(memory)).toEqual([0, 0, 0, 0, ...Array.from({ length: 12 }, (_, i) => 2 * i), 0, 0, 0, 0]);
});

test('shapes that do not fit are refused while the graph is built', () => {
  expect(() => broadcast(['T', 4], ['K', 4])).toThrow('shapes [T,4] and [K,4] do not broadcast');
  expect(() => matmul(input('x', ['T', 4]), input('w', [5, 6]))).toThrow('inner axes 4 and 5 differ');
});

test('the gradient of a frozen value is refused', () => {
  const [x, weight] = [input('x', [1, 2, 4]), input('weight', [4])];
  const [cos, sin] = [input('cos', [2, 2]), input('sin', [2, 2])];
  const wanted = (y: Value, of: Value) => () => gradients(new Map([[y, input('dy', y.shape)]]), [of]);
  expect(wanted(rmsNorm(x, weight, 1e-5), weight)).toThrow('norm weights are frozen');
  for (const table of [cos, sin]) expect(wanted(rope(x, cos, sin), table)).toThrow('rope tables are frozen');
});
