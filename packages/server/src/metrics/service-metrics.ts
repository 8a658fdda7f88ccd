import type { EngineStats } from '@trainyard/backend';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

import type { InferenceBackend, TrainingQueue } from '../contract/backends.ts';
import { InferenceMetrics } from './inference-metrics.ts';
import { JobMetrics } from './job-metrics.ts';

/** Sources that are read on each scrape. */
export interface MetricSources {
  inference: Pick<InferenceBackend, 'models' | 'stats' | 'trouble'>;
  training: Pick<TrainingQueue, 'trouble'>;
  /** Jobs that wait for the trainer, and those it has. */
  countJobs: () => Promise<{ queued: number; running: number }>;
}

/**
 * Counts and timings for Prometheus: vLLM's names for sampling, so that its dashboards read them, `trainyard_` ones for the rest.
 *
 * Labels hold no name that a tenant chose: `model_name` is the base model, `handler` the route.
 */
export class ServiceMetrics {
  readonly inference: InferenceMetrics;
  readonly jobs: JobMetrics;
  readonly #registry = new Registry();
  readonly #requests: Counter<'handler' | 'method' | 'status'>;
  readonly #durations: Histogram<'handler' | 'method'>;
  #sources: MetricSources | null = null;

  constructor() {
    const registers = [this.#registry];
    this.inference = new InferenceMetrics(this.#registry);
    this.jobs = new JobMetrics(this.#registry);
    this.#requests = new Counter({
      name: 'http_requests_total',
      help: 'Requests by route, method and status.',
      labelNames: ['handler', 'method', 'status'],
      registers,
    });
    this.#durations = new Histogram({
      name: 'http_request_duration_seconds',
      help: 'From the head of a request to the end of its answer.',
      labelNames: ['handler', 'method'],
      buckets: [0.005, 0.02, 0.1, 0.5, 1, 2.5, 10, 60, 600],
      registers,
    });
    this.#addSnapshots();
  }

  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE;

  /** Where snapshots come from; without, they are left out. */
  set sources(sources: MetricSources) {
    this.#sources = sources;
    const ids = sources.inference.models.map(({ id }) => id);
    this.#registry.setDefaultLabels({ model_name: ids.join(','), engine: '0' });
  }

  /** @param handler the route's pattern, never the path: paths hold names and ids */
  countRequest(handler: string, method: string, status: number, seconds: number): void {
    this.#requests.inc({ handler, method, status: `${Math.floor(status / 100)}xx` });
    this.#durations.observe({ handler, method }, seconds);
  }

  /** The text form of Prometheus. */
  text(): Promise<string> {
    return this.#registry.metrics();
  }

  #addSnapshots(): void {
    const stats = () => this.#sources?.inference.stats() ?? null;
    this.#gauge('vllm:num_requests_running', 'Choices in the batch.', () => stats()?.numRunning);
    this.#gauge('vllm:num_requests_waiting', 'Choices that wait for room.', () => stats()?.numWaiting);
    this.#gauge('vllm:kv_cache_usage_perc', 'Used part of the KV cache, 0 to 1.', () => usedPart(stats()));
    this.#total('vllm:prompt_tokens_total', 'Prompt tokens of requests that began.', () => stats()?.promptTokens);
    this.#total('vllm:generation_tokens_total', 'Tokens sampled.', () => stats()?.generatedTokens);
    this.#total('vllm:num_preemptions_total', 'Choices that gave their room back.', () => stats()?.numPreemptions);
    this.#total(
      'vllm:prefix_cache_queries_total',
      'Prompt tokens looked for in memory.',
      () => stats()?.prefixQueryTokens,
    );
    this.#total('vllm:prefix_cache_hits_total', 'Prompt tokens found in memory.', () => stats()?.prefixHitTokens);
    this.#gauge('trainyard_engine_requests', 'Requests in the engine, of all choices.', () => stats()?.numRequests);
    this.#gauge('trainyard_engine_adapters', 'Adapters in memory.', () => stats()?.numAdapters);
    this.#total('trainyard_engine_steps_total', 'Steps of the engine.', () => stats()?.numSteps);
    this.#gauge('trainyard_inference_up', '1 while sampling works.', () => isWell(this.#sources?.inference));
    this.#gauge('trainyard_training_up', '1 while training works.', () => isWell(this.#sources?.training));
    const jobs = new Gauge({
      name: 'trainyard_jobs',
      help: 'Training jobs that have not ended, by status.',
      labelNames: ['status'],
      registers: [this.#registry],
      collect: async () => {
        const counts = await this.#sources?.countJobs();
        jobs.reset();
        if (counts === undefined) return;
        jobs.set({ status: 'queued' }, counts.queued);
        jobs.set({ status: 'running' }, counts.running);
      },
    });
  }

  #gauge(name: string, help: string, read: () => number | undefined): void {
    const gauge = new Gauge({
      name,
      help,
      registers: [this.#registry],
      collect: () => {
        gauge.reset();
        gauge.set(read() ?? 0);
      },
    });
  }

  /** A total that somebody else counts; it begins again with them. */
  #total(name: string, help: string, read: () => number | undefined): void {
    const counter = new Counter({
      name,
      help,
      registers: [this.#registry],
      collect: () => {
        counter.reset();
        counter.inc(read() ?? 0);
      },
    });
  }
}

function usedPart(stats: EngineStats | null): number {
  return stats === null || stats.capacityTokens === 0 ? 0 : stats.usedTokens / stats.capacityTokens;
}

function isWell(part: Pick<TrainingQueue, 'trouble'> | undefined): number {
  return part !== undefined && part.trouble() === null ? 1 : 0;
}
