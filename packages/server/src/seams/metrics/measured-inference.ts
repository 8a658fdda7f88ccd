import { type InferenceBackend, type ModelInference, withGenerate } from '../contract/backends.ts';
import type { InferenceMetrics } from './inference-metrics.ts';

export function measuredInference(inference: InferenceBackend, metrics: InferenceMetrics): InferenceBackend {
  return {
    get models() {
      return inference.models;
    },
    get isRemote() {
      return inference.isRemote === true;
    },
    adapterFormat: inference.adapterFormat ?? 'peft',
    absence: (id) => inference.absence?.(id) ?? null,
    of: (id) => measuredModel(inference.of(id), id, metrics),
    checkCapacity: () => inference.checkCapacity(),
    publish: async (id, adapter, signal) => (await inference.publish?.(id, adapter, signal)) ?? null,
    retire: (digest) => inference.retire(digest),
    problem: () => inference.problem(),
  };
}

function measuredModel(inference: ModelInference, id: string, metrics: InferenceMetrics): ModelInference {
  return withGenerate(inference, (request, signal) =>
    metrics.measure(id, request, inference.generate(request, signal)),
  );
}
