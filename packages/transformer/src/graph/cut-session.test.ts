import { expect, test } from 'vitest';

import { BlockGraph, type Outputs } from '../blocks/block-graph.ts';
import { headGraph } from '../blocks/head-graph.ts';
import type { Architecture } from '../model/architecture.ts';
import {
  CONVOLUTION_LINEAR_NAMES,
  FUSED_LINEAR_NAMES,
  LINEAR_NAMES,
  type LinearName,
  type LoraConfig,
} from '../model/lora-config.ts';
import { PROJECTION_NAMES, inputOf, lowWidth, projectionDims } from '../model/projections.ts';
import { randomSource, TINY_ARCHITECTURES } from '../testing/index.ts';
import { compileGraph } from './compile.ts';
import { CutSession, type OutsideProducts } from './cut-session.ts';
import { float32, floats, GraphSession, type Tensor, type Tensors } from './session.ts';

const T = 5;
const SIZES: Readonly<Record<string, number>> = { T, N: T, C: 7 };
/** Extra rows that the outside products may write. */
const ROOM = 3;

const loraOf = (targets: readonly LinearName[]): LoraConfig => ({ rank: 2, alpha: 4, targets, initSeed: 1 });

/** Random inputs of a graph, fixed by name and shape. */
class Feeds {
  readonly #random = randomSource(5);
  readonly #known = new Map<string, Tensor>();

  of(name: string, dims: readonly number[]): Tensor {
    let tensor = this.#known.get(name);
    if (tensor === undefined) {
      const size = dims.reduce((product, dim) => product * dim, 1);
      tensor = float32(
        Float32Array.from({ length: size }, () => this.#random() - 0.5),
        dims,
      );
      this.#known.set(name, tensor);
    }
    return tensor;
  }

  forGraph(outputs: Outputs, savedAsInputs: boolean): Record<string, Tensor> {
    const { inputs } = compileGraph(outputs, { savedAsInputs });
    return Object.fromEntries(
      inputs.map(({ name, shape }) => [
        name,
        this.of(
          name,
          shape.map((dim) => (typeof dim === 'number' ? dim : SIZES[dim]!)),
        ),
      ]),
    );
  }
}

function products(matrices: Readonly<Record<string, Tensor>>): OutsideProducts {
  const dims = (name: string, isTransposed: boolean) =>
    isTransposed ? matrices[name]!.dims.toReversed() : matrices[name]!.dims;
  return {
    widthOf: (name, isTransposed) => dims(name, isTransposed)[0]!,
    computedRows: (numRows) => numRows + ROOM,
    multiply: (name, isTransposed, x, into) => {
      const [out, width] = dims(name, isTransposed) as [number, number];
      const [values, weights] = [floats(x), floats(matrices[name]!)];
      expect(into).toHaveLength((x.dims[0]! + ROOM) * out);
      into.fill(NaN);
      for (let row = 0; row < x.dims[0]!; row++)
        for (let j = 0; j < out; j++) {
          let sum = 0;
          for (let i = 0; i < width; i++)
            sum += values[row * width + i]! * weights[isTransposed ? i * out + j : j * width + i]!;
          into[row * out + j] = sum;
        }
    },
  };
}

/** Separates the weights and `b` of each projection from the wide matrices. */
function apart(architecture: Architecture, feeds: Tensors, lora: LoraConfig) {
  const weights: Record<string, Tensor> = {};
  const b: Record<string, Tensor> = {};
  for (const projection of PROJECTION_NAMES) {
    const wide = feeds[`${projection}.weight`];
    if (wide === undefined) continue;
    const { out, in: width } = projectionDims(architecture, projection);
    const low = lowWidth(inputOf(projection), lora);
    const columns = (from: number, to: number) =>
      Float32Array.from({ length: out * (to - from) }, (_, i) => {
        const [row, column] = [Math.floor(i / (to - from)), i % (to - from)];
        return floats(wide)[row * (width + low) + from + column]!;
      });
    weights[projection] = float32(columns(0, width), [out, width]);
    b[`${projection}.b`] = float32(columns(width, width + low), [out, low]);
  }
  return { weights, b };
}

/** Difference relative to the largest value of each result. */
function largestDifference(one: Tensors, other: Tensors): number {
  expect(Object.keys(other).toSorted()).toEqual(Object.keys(one).toSorted());
  return Math.max(
    ...Object.entries(one).map(([name, tensor]) => {
      const found = other[name]!;
      expect(found.dims, name).toEqual(tensor.dims);
      const largest = Math.max(...floats(tensor).map(Math.abs));
      return Math.max(...floats(tensor).map((value, i) => Math.abs(value - floats(found)[i]!))) / largest;
    }),
  );
}

const GRAPHS: readonly [name: string, of: (graph: BlockGraph) => Outputs][] = [
  ['attentionInput', (graph) => graph.attentionInput()],
  ['output', (graph) => graph.output()],
  ['outputBackward', (graph) => graph.outputBackward()],
  ['attentionInputBackward', (graph) => graph.attentionInputBackward(true)],
  ['firstAttentionInputBackward', (graph) => graph.attentionInputBackward(false)],
];
const TARGETS: readonly (readonly [string, ...(readonly LinearName[])[]])[] = [
  ['every linear layer', LINEAR_NAMES, FUSED_LINEAR_NAMES, CONVOLUTION_LINEAR_NAMES],
  ['two linear layers', ['q', 'up'], ['qkv', 'gateUp'], ['q', 'w3']],
];

test.each(
  Object.values(TINY_ARCHITECTURES).flatMap((architecture) =>
    GRAPHS.flatMap(([name, of]) =>
      TARGETS.map(([which, separate, fused, withConvolutions]) => ({
        architecture,
        name,
        of,
        which,
        targets: (architecture.convolution !== null
          ? withConvolutions
          : architecture.hasFusedLinears
            ? fused
            : separate)!,
      })),
    ),
  ),
)('$name of $architecture.name, adapters on $which: cut at its products it gives what it gives whole', (given) => {
  const { architecture, name, of, targets } = given;
  const lora = loraOf(targets);
  const savedAsInputs = name === 'outputBackward';
  const whole = of(new BlockGraph(architecture, lora));
  const feeds = new Feeds().forGraph(whole, savedAsInputs);
  const session = new GraphSession(whole, { numThreads: 1, savedAsInputs });
  const cut = new CutSession(of(new BlockGraph(architecture, lora, 'outside')), { numThreads: 1, savedAsInputs });
  const { weights, b } = apart(architecture, feeds, lora);
  const expected = session.run(feeds);
  const found = cut.run({ ...feeds, ...b }, {}, products(weights));
  const difference = largestDifference(expected, found);
  console.log(`largest difference ${difference}`);
  expect(difference).toBeLessThan(1e-5);
  // Fewer if the uncut graph computes whole products for the columns after their weights.
  expect(cut.flopsOfRun).toBeGreaterThan(0);
  expect(cut.flopsOfRun).toBeLessThanOrEqual(session.flops(feeds));
  // Also into the caller's memory.
  const results = Object.fromEntries(
    Object.entries(expected).map(([output, { dims }]) => [
      output,
      float32(new Float32Array(floats(expected[output]!).length), dims),
    ]),
  );
  cut.run({ ...feeds, ...b }, results, products(weights));
  expect(largestDifference(expected, results)).toBe(difference);
  session.close();
  cut.close();
});

test.each([
  [false, false, false],
  [true, false, false],
  [true, true, false],
  [true, true, true],
])('the head, cut: direction %s, entropy %s, replay %s', (direction, entropy, replay) => {
  const architecture = TINY_ARCHITECTURES.llama;
  const whole = headGraph(architecture, { direction, entropy, replay });
  const feeds = new Feeds().forGraph(whole, false);
  const session = new GraphSession(whole, { numThreads: 1 });
  const cut = new CutSession(headGraph(architecture, { direction, entropy, replay, products: 'outside' }), {
    numThreads: 1,
  });
  const { vocabulary, ...others } = feeds;
  const difference = largestDifference(session.run(feeds), cut.run(others, {}, products({ vocabulary: vocabulary! })));
  expect(difference).toBeLessThan(1e-5);
  session.close();
  cut.close();
});
