import { DecoderAdapter } from '@trainyard/decoder';
import { isUniform, moduleShape } from '@trainyard/transformer';
import type { AdapterWeights, Architecture, LinearAdapter, LinearName } from '@trainyard/transformer';
import type { LoraParameters } from '../model/policy-model.ts';

/** The adapter as the sampler would read it from its file, to the bit. */
export function decoderAdapter({ config, tensors }: LoraParameters, architecture: Architecture): DecoderAdapter {
  const layers: Partial<Record<LinearName, LinearAdapter>>[] = Array.from(
    { length: architecture.numLayers },
    () => ({}),
  );
  const halves = new Map(tensors.map((tensor) => [tensor.name, tensor.value]));
  for (const { layer, linear, half, value } of tensors) {
    if (half !== 'a') continue;
    const { rank, scale } = moduleShape(config, layer, linear);
    // The file of a uniform adapter stores alpha in single precision; other files store scaled values.
    const factor = isUniform(config) ? Math.fround(config.alpha) / rank : scale;
    const b = halves.get(`layers.${layer}.${linear}.b`)!;
    layers[layer]![linear] = { rank, a: value.slice(), b: b.map((weight) => weight * factor) };
  }
  return new DecoderAdapter(layers satisfies AdapterWeights, architecture);
}
