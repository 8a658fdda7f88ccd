import type { BackendMember, EngineStats } from '@trainyard/backend';
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

import type { InferenceBackend, TrainingQueue, Trouble } from '../contract/backends.ts';
import { InferenceMetrics } from './inference-metrics.ts';
import { JobMetrics } from './job-metrics.ts';

/** Sources that are read on each scrape. */
export interface MetricSources {
  inference: Pick<InferenceBackend, 'models' | 'of' | 'trouble'>;
  training: Pick<TrainingQueue, 'trouble'>;
  /** Jobs that wait for the trainer, and those it has. */
  countJobs: () => Promise<{ queued: number; running: number }>;
}

/**
 * Counts and timings for Prometheus: vLLM's names for sampling, so that its dashboards read them, `trainyard_` ones for the rest.
 *
 * Labels hold no name that a tenant chose: `model_name` is the base model, `handler` the route. What is not of one base model has no `model_name` where several
 * are served.
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
    for (const id of ids) this.inference.add(id);
    // Dashboards that choose by the name find all of a service with one model.
    this.#registry.setDefaultLabels({ ...(ids.length === 1 ? { model_name: ids[0] } : {}), engine: '0' });
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
    this.#gauge('vllm:num_requests_running', 'Choices in the batch.', ({ numRunning }) => numRunning);
    this.#gauge('vllm:num_requests_waiting', 'Choices that wait for room.', ({ numWaiting }) => numWaiting);
    this.#gauge('vllm:kv_cache_usage_perc', 'Used part of the KV cache, 0 to 1.', usedPart);
    this.#total('vllm:prompt_tokens_total', 'Prompt tokens of requests that began.', (stats) => stats.promptTokens);
    this.#total('vllm:generation_tokens_total', 'Tokens sampled.', (stats) => stats.generatedTokens);
    this.#total('vllm:num_preemptions_total', 'Choices that gave their room back.', (stats) => stats.numPreemptions);
    this.#total(
      'vllm:prefix_cache_queries_total',
      'Prompt tokens looked for in memory.',
      (stats) => stats.prefixQueryTokens,
    );
    this.#total('vllm:prefix_cache_hits_total', 'Prompt tokens found in memory.', (stats) => stats.prefixHitTokens);
    this.#gauge('trainyard_engine_requests', 'Requests in the engine, of all choices.', (stats) => stats.numRequests);
    this.#gauge('trainyard_engine_adapters', 'Adapters in memory.', (stats) => stats.numAdapters);
    this.#total('trainyard_engine_steps_total', 'Steps of the engine.', (stats) => stats.numSteps);
    this.#up('trainyard_inference_up', '1 while sampling works.', () => this.#sources?.inference);
    this.#up('trainyard_training_up', '1 while training works.', () => this.#sources?.training);
    for (const [name, help, read] of MEMBER_FIGURES) this.#memberFigure(name, help, read);
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

  /** By base model; 0 while it is not in memory. */
  #gauge(name: string, help: string, read: (stats: EngineStats) => number): void {
    const gauge = new Gauge({
      name,
      help,
      labelNames: ['model_name'],
      registers: [this.#registry],
      collect: () => {
        gauge.reset();
        for (const [model_name, stats] of this.#stats()) gauge.set({ model_name }, stats === null ? 0 : read(stats));
      },
    });
  }

  /** A total that somebody else counts, by base model; it begins again with them. */
  #total(name: string, help: string, read: (stats: EngineStats) => number): void {
    const counter = new Counter({
      name,
      help,
      labelNames: ['model_name'],
      registers: [this.#registry],
      collect: () => {
        counter.reset();
        for (const [model_name, stats] of this.#stats()) counter.inc({ model_name }, stats === null ? 0 : read(stats));
      },
    });
  }

  /** By base model and server, where servers elsewhere sample. */
  #memberFigure(name: string, help: string, read: (member: BackendMember) => number): void {
    const gauge = new Gauge({
      name,
      help,
      labelNames: ['model_name', 'server'],
      registers: [this.#registry],
      collect: async () => {
        const { inference } = this.#sources ?? {};
        // They are as of the last look at its health: this one, which all gauges of a scrape share.
        await inference?.trouble();
        gauge.reset();
        for (const { id: model_name } of inference?.models ?? [])
          for (const member of inference?.of(model_name).members?.() ?? [])
            gauge.set({ model_name, server: member.name }, read(member));
      },
    });
  }

  #stats(): [model: string, stats: EngineStats | null][] {
    if (this.#sources === null) return [];
    const { inference } = this.#sources;
    return inference.models.map(({ id }) => [id, inference.of(id).stats()]);
  }

  #up(name: string, help: string, part: () => { trouble(): Trouble } | undefined): void {
    const gauge = new Gauge({
      name,
      help,
      registers: [this.#registry],
      collect: async () => {
        const source = part();
        gauge.set(source !== undefined && (await source.trouble()) === null ? 1 : 0);
      },
    });
  }
}

const MEMBER_FIGURES: readonly (readonly [name: string, help: string, read: (member: BackendMember) => number])[] = [
  ['trainyard_server_up', '1 while the server takes requests.', ({ state }) => (state === 'up' ? 1 : 0)],
  ['trainyard_server_choices', 'Choices in flight at the server.', ({ numChoices }) => numChoices],
  ['trainyard_server_adapters', 'Adapters that the server was given.', ({ numAdapters }) => numAdapters],
  ['trainyard_server_requests_total', 'Requests sent to the server.', ({ numRequests }) => numRequests],
  ['trainyard_server_failures_total', 'Requests that failed by its fault.', ({ numFailures }) => numFailures],
  ['trainyard_server_losses_total', 'Times that the server was lost.', ({ numLosses }) => numLosses],
  ['trainyard_server_tokens_total', 'Tokens that the server sampled.', ({ numTokens }) => numTokens],
];

function usedPart({ capacityTokens, usedTokens }: EngineStats): number {
  return capacityTokens === 0 ? 0 : usedTokens / capacityTokens;
}
