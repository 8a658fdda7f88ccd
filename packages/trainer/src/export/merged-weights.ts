import type { GgufFile } from '@trainyard/native';
import { type Architecture, moduleShape } from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import { ggufAdapterTensors } from '../model/adapter-tensors.ts';
import type { LoraParameters } from '../model/policy-model.ts';

/** Vectors (norms, biases) are float32 in both, as llama.cpp requires. */
export type MergedType = 'f32' | 'f16';

const LARGEST_HALF = 65_504;

interface Factors {
  /** [rank, in] */
  readonly a: Float32Array;
  /** [out, rank], rows in the order of the file */
  readonly b: Float32Array;
  readonly rank: number;
  readonly scale: number;
}

/** Weights with an adapter added: W + scale · B · A. */
export class MergedWeights {
  readonly #file: Pick<GgufFile, 'readF32'>;
  readonly #factors: ReadonlyMap<string, Factors>;

  /** @param lora null adds nothing */
  constructor(file: Pick<GgufFile, 'readF32'>, architecture: Architecture, lora: LoraParameters | null) {
    this.#file = file;
    const tensors = lora === null ? [] : ggufAdapterTensors(lora, architecture);
    const halves = new Map(tensors.map(({ name, data }) => [name, data]));
    this.#factors = new Map(
      tensors.flatMap(({ name }, index) => {
        const { layer, linear, half } = lora!.tensors[index]!;
        if (half === 'b') return [];
        const weight = name.slice(0, -'.lora_a'.length);
        const { rank, scale } = moduleShape(lora!.config, layer, linear);
        return [[weight, { a: halves.get(name)!, b: halves.get(`${weight}.lora_b`)!, rank, scale }]];
      }),
    );
  }

  /**
   * Float32 in the layout of the file.
   *
   * @throws {TrainerError} `trainer.non_finite` for values that `type` cannot hold; {NativeError} for a missing
   * tensor
   */
  read(name: string, type: MergedType): Float32Array {
    const values = this.#file.readF32(name);
    const factors = this.#factors.get(name);
    if (factors !== undefined) addProduct(values, factors);
    const limit = type === 'f16' ? LARGEST_HALF : Number.MAX_VALUE;
    // Written so that NaN fails too.
    const bad = values.find((value) => !(Math.abs(value) <= limit));
    if (bad !== undefined) {
      const advice = type === 'f16' && Number.isFinite(bad) ? '; export with dtype f32' : '';
      throw new TrainerError(
        'trainer.non_finite',
        `tensor ${name} has the value ${bad}, which ${type} cannot hold${advice}`,
      );
    }
    return values;
  }
}

/** weights [out, in] += scale · b · a, summed in float64. */
function addProduct(weights: Float32Array, { a, b, rank, scale }: Factors): void {
  const columns = a.length / rank;
  const sum = new Float64Array(columns);
  for (let row = 0; row < weights.length / columns; row++) {
    const values = weights.subarray(row * columns, (row + 1) * columns);
    sum.set(values);
    for (let r = 0; r < rank; r++) {
      const factor = scale * b[row * rank + r]!;
      for (let column = 0; column < columns; column++) sum[column]! += factor * a[r * columns + column]!;
    }
    values.set(sum);
  }
}
