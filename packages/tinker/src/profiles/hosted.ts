import { LAYER_GROUPS, type TinkerProfile } from './tinker-profile.ts';

/**
 * The hosted service of Thinking Machines: protobuf, plain sums, execution by number. Untested: from its SDK and
 * documentation.
 */
export const HOSTED: TinkerProfile = {
  name: 'hosted',
  wire: 'protobuf',
  recipe: 'weights',
  clipping: 'step',
  remembers: 'everything',
  alpha: 32,
  targetSets: LAYER_GROUPS,
  rankRefusal: null,
  gradNormMetrics: ['grad_norm:mean', 'grad_norm', 'unclipped_grad_l2:mean'],
  archiveName: 'withKind',
  keyPrefix: 'tml-',
  refusal: null,
  notes: [],
};
