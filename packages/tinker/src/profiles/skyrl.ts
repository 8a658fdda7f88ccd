import { ALL_LAYERS, type TinkerProfile } from './tinker-profile.ts';

/** SkyRL 0.3 and 0.4 with its JAX back end. It checks no key and no base model, and executes in the order of arrival. */
export const SKYRL: TinkerProfile = {
  name: 'skyrl',
  wire: 'probe',
  recipe: 'meanAdvantages',
  clipping: 'measured',
  // From 0.4 on; the JSON of 0.3 means that it does not. A load that comes again is refused, since it is no longer the first request of its model.
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
