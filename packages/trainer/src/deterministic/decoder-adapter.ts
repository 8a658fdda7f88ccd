import { DecoderAdapter } from '@trainyard/decoder';
import type { AdapterWeights, Architecture, LinearAdapter, LinearName } from '@trainyard/transformer';
import type { LoraParameters } from '../model/policy-model.ts';

/** The adapter as the sampler would read it from its file, to the bit. */
export function decoderAdapter({ config, tensors }: LoraParameters, architecture: Architecture): DecoderAdapter {
  const layers: Partial<Record<LinearName, LinearAdapter>>[] = Array.from(
    { length: architecture.numLayers },
    () => ({}),
  );
  // The file stores alpha in single precision.
  const scale = Math.fround(config.alpha) / config.rank;
  const halves = new Map(tensors.map((tensor) => [tensor.name, tensor.value]));
  for (const { layer, linear, half, value } of tensors) {
    if (half !== 'a') continue;
    const b = halves.get(`layers.${layer}.${linear}.b`)!;
    layers[layer]![linear] = { rank: config.rank, a: value.slice(), b: b.map((weight) => weight * scale) };
  }
  return new DecoderAdapter(layers satisfies AdapterWeights, architecture);
}
