import type { EngineEvent, GenerateRequest } from '@trainyard/generation';

import type { InferenceBackend } from '../contract/backends.ts';
import type { InferenceMetrics } from './inference-metrics.ts';

/** The same back end, whose requests are counted and timed. */
export function measuredInference(inference: InferenceBackend, metrics: InferenceMetrics): InferenceBackend {
  return {
    get models() {
      return inference.models;
    },
    checkRoom: () => inference.checkRoom(),
    tokenizerFacts: () => inference.tokenizerFacts(),
    generate: (request: GenerateRequest, signal: AbortSignal): AsyncIterable<EngineEvent> =>
      metrics.measure(request, inference.generate(request, signal)),
    tokenize: (input, options) => inference.tokenize(input, options),
    detokenize: (tokenIds, options) => inference.detokenize(tokenIds, options),
    trouble: () => inference.trouble(),
    stats: () => inference.stats(),
  };
}
