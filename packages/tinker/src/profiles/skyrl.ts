import { ALL_LAYERS, type TinkerProfile } from './tinker-profile.ts';

/**
 * SkyRL 0.3 and 0.4 with its JAX back end. It checks neither key nor base model, and executes in the order of
 * arrival.
 */
export const SKYRL: TinkerProfile = {
  name: 'skyrl',
  wire: 'probe',
  recipe: 'meanAdvantages',
  clipping: 'measured',
  // From 0.4 on; 0.3 is recognised by its JSON. A repeated load is refused, because it is no longer the first
  // request of its model.
  remembers: 'gradients',
  alpha: 32,
  targetSets: [ALL_LAYERS],
  rankRefusal: /rank 0 must be between 1 and (\d+)/,
  gradNormMetrics: ['skyrl.ai/grad_norm'],
  archiveName: 'bare',
  keyPrefix: null,
  refusal: null,
  notes: [],
};
