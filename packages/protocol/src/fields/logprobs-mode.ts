/** Values of `logprobs_mode` and of the setting `--logprobs-mode`, as in vLLM. */
export const LOGPROBS_MODES = ['raw_logprobs', 'processed_logprobs', 'raw_logits', 'processed_logits'] as const;

/** Value for −∞, which JSON lacks; clients of vLLM know this number. */
export const MIN_LOGPROB = -9999;

/** Log-probabilities or logits of the model (`raw`), or of the sampled distribution (`processed`). */
export type LogprobsMode = 'raw' | 'processed' | 'raw_logits' | 'processed_logits';

export function logprobsModeOf(mode: (typeof LOGPROBS_MODES)[number]): LogprobsMode {
  if (mode === 'raw_logprobs') return 'raw';
  return mode === 'processed_logprobs' ? 'processed' : mode;
}

export function isProcessedMode(mode: LogprobsMode): boolean {
  return mode === 'processed' || mode === 'processed_logits';
}

export function isLogitsMode(mode: LogprobsMode): boolean {
  return mode === 'raw_logits' || mode === 'processed_logits';
}
