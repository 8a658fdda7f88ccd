import { expect, test } from 'vitest';

import { mixesSamplers, withSamplerNames } from './sampler-metrics.ts';

const metrics = { logprob_gap_mean: 4e-6, probs_corr: 0.99, entropy: 1 };

test('comparisons with the sampler are fresh in the first gradient step, and updated in later ones', () => {
  expect(withSamplerNames(metrics, 0)).toEqual({
    ...metrics,
    'fresh/logprob_gap_mean': 4e-6,
    'fresh/probs_corr': 0.99,
  });
  const later = withSamplerNames(metrics, 3);
  expect(later).toEqual({ ...metrics, 'updated/logprob_gap_mean': 4e-6, 'updated/probs_corr': 0.99 });
  expect(withSamplerNames(later, 3)).toEqual(later);
  expect(Object.keys(later).filter((name) => !mixesSamplers(name))).toEqual([
    'entropy',
    'updated/logprob_gap_mean',
    'updated/probs_corr',
  ]);
});
