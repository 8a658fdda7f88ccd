/** Metrics of a gradient step that compare the policy with the sampler of its rollouts. */
const SAMPLER_METRICS: ReadonlySet<string> = new Set([
  'logprob_gap_mean',
  'logprob_gap_p99',
  'logprob_gap_max',
  'probs_corr',
  'kl_sampler',
  'kl_sampler_k1',
  'surprisal_excess',
  'surprisal_excess_error',
]);

/**
 * Adds the comparisons with the sampler under a name that says what they measure. `fresh/…`: of the first
 * gradient step of a job, whose policy is the sampler, so any difference is an error. `updated/…`: of later
 * steps, whose policy has moved on purpose.
 *
 * @param index of the gradient step in its job
 */
export function withSamplerNames(
  metrics: Readonly<Record<string, number>>,
  index: number,
): Readonly<Record<string, number>> {
  const prefix = index === 0 ? 'fresh' : 'updated';
  const own = Object.entries(metrics).filter(([name]) => SAMPLER_METRICS.has(name));
  return { ...metrics, ...Object.fromEntries(own.map(([name, value]) => [`${prefix}/${name}`, value])) };
}

/**
 * True for a comparison with the sampler without its `fresh/` or `updated/`: over several gradient steps it
 * mixes both, so runs do not have it.
 */
export function mixesSamplers(name: string): boolean {
  return SAMPLER_METRICS.has(name);
}
