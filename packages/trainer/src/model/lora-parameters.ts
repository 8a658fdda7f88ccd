import {
  type Architecture,
  linearDims,
  linearNames,
  linearsIn,
  type LinearName,
  type LoraConfig,
  type LoraHalf,
  moduleShape,
  targetModule,
} from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import type { LoraParameters, LoraTensor } from './policy-model.ts';

/**
 * A fresh adapter, which does not change the base model's results. `a` is uniform in ±1/√in, PEFT's default
 * (Kaiming-uniform with negative slope √5: bound √(6 / ((1 + 5) · in))); `b` is zero. Every tensor has its own
 * random stream, independent of the other target layers.
 *
 * @throws {TrainerError} `trainer.config_invalid` for a layer that the model has not
 */
export function initialLoraParameters(architecture: Architecture, config: LoraConfig): LoraParameters {
  const tensors: LoraTensor[] = [];
  const names = linearNames(architecture);
  const absent = config.targets.filter((linear) => !names.includes(linear));
  if (absent.length > 0)
    throw new TrainerError(
      'trainer.config_invalid',
      `\`lora.targets\` has ${absent.map(targetModule).join(', ')}, which this base model has not; it has ${names.map(targetModule).join(', ')}: create the model with those`,
    );
  for (let layer = 0; layer < architecture.numLayers; layer++) {
    const linears = linearsIn(architecture, layer);
    for (const linear of config.targets) {
      if (!linears.includes(linear)) continue;
      const dims = linearDims(architecture, linear);
      const { rank } = moduleShape(config, layer, linear);
      const a = createTensor(layer, linear, 'a', [rank, dims.in]);
      const random = uniformGenerator(config.initSeed, layer * names.length + names.indexOf(linear));
      const bound = 1 / Math.sqrt(dims.in);
      for (let i = 0; i < a.value.length; i++) a.value[i] = (2 * random() - 1) * bound;
      tensors.push(a, createTensor(layer, linear, 'b', [dims.out, rank]));
    }
  }
  return { config, tensors };
}

function createTensor(layer: number, linear: LinearName, half: LoraHalf, dims: readonly [number, number]): LoraTensor {
  const size = dims[0] * dims[1];
  const name = `layers.${layer}.${linear}.${half}` as const;
  return { name, layer, linear, half, dims, value: new Float32Array(size), gradient: new Float32Array(size) };
}

/** Uniform in [0, 1) with 32 random bits (splitmix32); streams of one seed are unrelated. */
function uniformGenerator(seed: number, stream: number): () => number {
  let state = (mix(seed | 0) + Math.imul(stream, 0x9e3779b9)) | 0;
  state = mix(state);
  return () => {
    state = (state + 0x9e3779b9) | 0;
    return (mix(state) >>> 0) / 2 ** 32;
  };
}

function mix(value: number): number {
  let z = Math.imul(value ^ (value >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return z ^ (z >>> 15);
}
