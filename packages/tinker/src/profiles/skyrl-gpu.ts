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
    "the server's own configuration sets betas, epsilon, weight decay and gradient clipping: use the same values there as in the jobs",
    'all models must have the same adapter shape (rank, alpha, layers)',
  ],
};
