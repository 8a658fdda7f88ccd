import { changesDistribution, isLogitsMode, isProcessedMode, type SamplingChanges } from '@trainyard/protocol/fields';
import type { SampleRequest } from './sample-request.ts';

/**
 * Changes that a request makes to the distribution of its choices; null if it makes none.
 * @param isMasked by text, or by banned sequences; other masks are read from the request
 */
export function samplingChangesOf(request: SampleRequest, isMasked: boolean): SamplingChanges | null {
  const { logprobsMode } = request;
  const { seed: _seed, logitBias, ...settings } = request.sampling;
  const changes: SamplingChanges = {
    ...settings,
    ...(isProcessedMode(logprobsMode) ? { hasProcessedLogprobs: true } : {}),
    ...(isLogitsMode(logprobsMode) ? { reportsLogits: true } : {}),
    isMasked: isMasked || request.allowedTokenIds !== null || request.minTokens > 0,
    logitBias: clampedBias(logitBias),
  };
  return changesDistribution(changes) ? changes : null;
}

/** Clamps biases to ±100. */
export function clampedBias(logitBias: SampleRequest['sampling']['logitBias']): [id: number, bias: number][] {
  return logitBias.map(([id, bias]) => [id, Math.max(-100, Math.min(100, bias))]);
}
