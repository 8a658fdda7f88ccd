import { type DeltaNet, hasDeltaNet } from './gated-delta-net.ts';
import { type Convolution, hasConvolution } from './short-convolution.ts';

/** Part of a block that combines tokens. */
export type LayerMixer = 'attention' | 'convolution' | 'deltaNet';

interface MixerTraits {
  readonly convolution: Convolution | null;
  readonly deltaNet: DeltaNet | null;
}

export function layerMixer(architecture: MixerTraits, layer: number): LayerMixer {
  if (hasConvolution(architecture, layer)) return 'convolution';
  return hasDeltaNet(architecture, layer) ? 'deltaNet' : 'attention';
}

export const hasAttention = (architecture: MixerTraits, layer: number): boolean =>
  layerMixer(architecture, layer) === 'attention';
