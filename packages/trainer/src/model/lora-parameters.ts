import {
  type Architecture,
  GGUF_LINEARS,
  linearDims,
  linearNames,
  linearsIn,
  type LinearName,
  type LoraConfig,
  type LoraHalf,
  modulePath,
  moduleShape,
  targetModule,
  targetModules,
  valueHeads,
} from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import type { LoraParameters, LoraShape, LoraTensor } from './policy-model.ts';

/**
 * A fresh adapter, which does not change the base model's results. `a` is uniform in ±1/√in, PEFT's default
 * (Kaiming-uniform with negative slope √5: bound √(6 / ((1 + 5) · in))); `b` is zero. Every tensor has its own
 * random stream, independent of the other target layers.
 *
 * @throws {TrainerError} `trainer.config_invalid` for a layer that the model has not, and a pattern's key without modules
 */
export function initialLoraParameters(architecture: Architecture, wanted: LoraConfig): LoraParameters {
  const names = linearNames(architecture);
  const modules = targetModules(names);
  // A name that families share (`out_proj`) means the layers that this model has.
  const config = { ...wanted, targets: wanted.targets.filter((linear) => names.includes(linear)) };
  const absent = wanted.targets.filter((linear) => !modules.includes(targetModule(linear)));
  if (absent.length > 0)
    throw new TrainerError(
      'trainer.config_invalid',
      `\`lora.targets\` has ${targetModules(absent).join(', ')}, which this base model has not; it has ${targetModules(names).join(', ')}: create the model with those`,
    );
  const shapes = loraShapes(architecture, config);
  refuseUnusedKeys(config, shapes);
  const tensors = shapes.map((shape): LoraTensor => {
    const { layer, linear, half, dims } = shape;
    const size = dims[0] * dims[1];
    const value = new Float32Array(size);
    if (half === 'a') {
      const random = uniformGenerator(config.initSeed, layer * names.length + names.indexOf(linear));
      const bound = 1 / Math.sqrt(dims[1]);
      for (let i = 0; i < size; i++) value[i] = (2 * random() - 1) * bound;
    }
    return { ...shape, value, gradient: new Float32Array(size) };
  });
  return { config, tensors };
}

/** A base model that was not there at the registration may lack modules that a pattern names. */
function refuseUnusedKeys({ rankPattern, alphaPattern }: LoraConfig, shapes: readonly LoraShape[]): void {
  const used = new Set(shapes.flatMap(({ layer, linear }) => [modulePath(layer, linear), targetModule(linear)]));
  for (const [name, pattern] of Object.entries({ rank_pattern: rankPattern, alpha_pattern: alphaPattern })) {
    const unused = Object.keys(pattern ?? {}).find((key) => !used.has(key));
    if (unused !== undefined)
      throw new TrainerError(
        'trainer.config_invalid',
        `\`lora.${name}\` has ${unused}, which selects no module of this base model: create the model without it`,
      );
  }
}

/** Tensors of an adapter without values, in their order. Blocks without a target, such as those of experts, have none. */
export function loraShapes(architecture: Architecture, config: LoraConfig): LoraShape[] {
  const shape = (layer: number, linear: LinearName, half: LoraHalf, dims: LoraShape['dims']): LoraShape => ({
    valueHeads: headsOf(architecture, linear, half),
    name: `layers.${layer}.${linear}.${half}`,
    layer,
    linear,
    half,
    dims,
  });
  return Array.from({ length: architecture.numLayers }, (_, layer) => {
    const linears = linearsIn(architecture, layer);
    return config.targets
      .filter((linear) => linears.includes(linear))
      .flatMap((linear) => {
        const dims = linearDims(architecture, linear);
        const { rank } = moduleShape(config, layer, linear);
        return [shape(layer, linear, 'a', [rank, dims.in]), shape(layer, linear, 'b', [dims.out, rank])];
      });
  }).flat();
}

/** `a` has the columns of a linear layer, `b` its rows. */
function headsOf(architecture: Architecture, linear: LinearName, half: LoraHalf): LoraShape['valueHeads'] {
  const heads = valueHeads(architecture, GGUF_LINEARS[linear]);
  return heads?.axis === (half === 'a' ? 'columns' : 'rows') ? heads : null;
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
