import { type Architecture, LINEAR_NAMES, linearDims, type LinearName, type LoraConfig } from '@trainyard/transformer';
import { LEAST_LORA_ALPHA } from '@trainyard/protocol/fields';
import { TrainerError } from '../contract/errors.ts';
import { peftModuleName, peftTensorName } from '../model/adapter-tensors.ts';
import type { LoraTensor } from '../model/policy-model.ts';
import { MAX_LORA_ALPHA, type ModuleShape, type PeftConfig } from './peft-config.ts';

export interface SentTensor {
  readonly name: string;
  readonly dims: readonly [number, number];
  readonly shape: ModuleShape;
}

type Place = Pick<LoraTensor, 'layer' | 'linear' | 'half' | 'dims'>;

/**
 * Converts a PEFT adapter to one rank and one scale, with the same results, also in later training: missing
 * ranks and modules are zero in both halves, so they have no gradient. For another scale, half B is multiplied
 * by the quotient.
 */
export class UniformAdapter {
  readonly lora: LoraConfig;
  readonly #architecture: Architecture;
  readonly #scale: number;
  /** Keys are module names. */
  readonly #shapes: ReadonlyMap<string, ModuleShape>;

  /** @throws {TrainerError} `trainer.adapter_invalid` */
  constructor(architecture: Architecture, config: PeftConfig) {
    this.#architecture = architecture;
    const modules = Array.from({ length: architecture.numLayers }, (_, layer) =>
      LINEAR_NAMES.map((linear) => ({ linear, name: peftModuleName(layer, linear) })),
    ).flat();
    const shapes = config.shapesOf(modules.map(({ name }) => name));
    const adapted = modules.flatMap((module, index) => {
      const shape = shapes[index] ?? null;
      return shape === null ? [] : [{ ...module, shape }];
    });
    const [first] = adapted;
    if (first === undefined) {
      const known = modules.slice(0, LINEAR_NAMES.length).map(({ name }) => name);
      throw invalid(
        `target_modules selects no module of this base model, which has ${known.join(', ')} and so on for each layer`,
      );
    }
    this.#shapes = new Map(adapted.map(({ name, shape }) => [name, shape]));
    const rank = Math.max(...adapted.map(({ shape }) => shape.rank));
    // As many modules as possible keep their scale.
    const usual =
      adapted.find(({ shape }) => shape.scale === config.shape.scale) ??
      adapted.find(({ shape }) => shape.scale > 0) ??
      first;
    this.#scale = usual.shape.scale;
    const targets = LINEAR_NAMES.filter((name: LinearName) => adapted.some(({ linear }) => linear === name));
    this.lora = { rank, alpha: alphaOf(usual.shape, rank), targets, initSeed: 0 };
  }

  /** Null if the file has no tensor for the place. */
  sent({ layer, linear, half }: Place): SentTensor | null {
    const shape = this.#shapes.get(peftModuleName(layer, linear));
    if (shape === undefined) return null;
    const dims = linearDims(this.#architecture, linear);
    const { rank } = shape;
    return {
      name: peftTensorName({ layer, linear, half }),
      dims: half === 'a' ? [rank, dims.in] : [dims.out, rank],
      shape,
    };
  }

  /** @param value from the file */
  write({ half, dims }: Place, { shape }: SentTensor, value: Float32Array): Float32Array {
    const factor = half === 'b' ? shape.scale / this.#scale : 1;
    if (shape.rank === this.lora.rank && factor === 1) return value;
    const written = new Float32Array(dims[0] * dims[1]);
    if (half === 'a') written.set(value);
    else
      for (let row = 0; row < dims[0]; row++)
        for (let column = 0; column < shape.rank; column++)
          written[row * dims[1] + column] = value[row * shape.rank + column]! * factor;
    return written;
  }
}

/** Alpha that gives a module's scale at another rank. */
function alphaOf({ rank: own, alpha: ownAlpha, scale }: ModuleShape, rank: number): number {
  const alpha = own === rank && ownAlpha / own === scale ? ownAlpha : scale * rank;
  if (alpha >= LEAST_LORA_ALPHA && alpha <= MAX_LORA_ALPHA) return alpha;
  throw invalid(
    `the scale ${scale} of rank ${own} is alpha ${alpha} at rank ${rank}, the largest of this adapter; it must be from ${LEAST_LORA_ALPHA} to ${MAX_LORA_ALPHA}`,
  );
}

function invalid(message: string): TrainerError {
  return new TrainerError('trainer.adapter_invalid', message);
}
