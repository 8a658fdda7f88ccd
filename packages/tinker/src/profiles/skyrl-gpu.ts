import { SKYRL } from './skyrl.ts';
import type { TinkerProfile } from './tinker-profile.ts';

/**
 * SkyRL with FSDP or Megatron on Ray: policy losses are summed, cross_entropy is not (its mean depends on
 * micro-batches).
 */
export const SKYRL_GPU: TinkerProfile = {
  ...SKYRL,
  name: 'skyrl-gpu',
  recipe: 'advantages',
  clipping: 'server',
  // Rank 0 is a model without an adapter: the request would succeed, and later adapters be refused.
  rankRefusal: null,
  notes: [
    'betas, epsilon, weight decay and the clip of a step are those of its own configuration: set them there as jobs have them',
    'all models must have one shape of adapter (rank, alpha, layers)',
  ],
};
