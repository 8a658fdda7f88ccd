import type { BackendMember, EngineStats } from '@trainyard/backend';
import type { CheckpointTotals, KeyLimits } from '@trainyard/store';
import { Counter, Gauge, Registry } from 'prom-client';

import type { InferenceBackend, TrainingQueue, Problem } from '../contract/backends.ts';
import { does, type Role } from '../contract/role.ts';
import { KEY_LIMIT_NAMES } from '../contract/key-object.ts';
import { HealthMetrics } from './health-metrics.ts';
import { InferenceMetrics } from './inference-metrics.ts';
import { DataMetrics } from './data-metrics.ts';
import { JobMetrics } from './job-metrics.ts';
import { KeptAnswerMetrics } from './kept-answer-metrics.ts';
import { MachineMetrics } from './machine-metrics.ts';
import type { QueueFigures } from './queue-figures.ts';
import { Counts, Spreads } from './metric-series.ts';

export interface MetricSources {
  inference?: Pick<InferenceBackend, 'models' | 'of' | 'problem' | 'isRemote'>;
  training: Pick<TrainingQueue, 'problem'>;
  queue: () => Promise<QueueFigures>;
  checkpoints: () => Promise<CheckpointTotals>;
}

/**
 * Metrics for Prometheus: vLLM's names for sampling, so that its dashboards work, `trainyard_` names for the
 * rest. Labels contain no names chosen by tenants. With several models, series without one base model have no
 * `model_name`. All series can be summed over the processes of a service except the queue's, which are equal
 * everywhere.
 */
export class ServiceMetrics {
  readonly inference: InferenceMetrics;
  readonly jobs: JobMetrics;
  readonly data: DataMetrics;
  readonly machine: MachineMetrics;
  readonly health: HealthMetrics;
  readonly keptAnswers: KeptAnswerMetrics;
  readonly #registry = new Registry();
  readonly #requests: Counts<'handler' | 'method' | 'status'>;
  readonly #durations: Spreads<'handler' | 'method'>;
  readonly #refusals: Counter<'limit'>;
  readonly #stalledReaders: Counter;
  readonly #ignoredFields: Counter<'handler'>;
  #sources: MetricSources | null = null;
  #looking: Promise<QueueFigures | null> | null = null;

  /** @param role of the process, which reports only its own work. Default `all` */
  constructor(role: Role = 'all') {
    // Metrics of other roles go into an unused registry.
    const registryIf = (isUsed: boolean) => (isUsed ? this.#registry : new Registry());
    const [ofSampling, ofTraining] = [registryIf(role !== 'trainer'), registryIf(does(role, 'trainer'))];
    const registers = [ofSampling];
    this.inference = new InferenceMetrics(ofSampling);
    this.jobs = new JobMetrics(ofTraining);
    this.data = new DataMetrics(this.#registry);
    this.machine = new MachineMetrics(this.#registry);
    this.health = new HealthMetrics(this.#registry, ofSampling);
    this.keptAnswers = new KeptAnswerMetrics(registryIf(does(role, 'api')));
    this.#requests = new Counts({
      name: 'http_requests_total',
      help: 'Requests by route, method and status.',
      labelNames: ['handler', 'method', 'status'],
      registry: ofSampling,
    });
    this.#durations = new Spreads({
      name: 'http_request_duration_seconds',
      help: 'Time from the head of a request to the end of its response.',
      labelNames: ['handler', 'method'],
      bounds: [0.005, 0.02, 0.1, 0.5, 1, 2.5, 10, 60, 600],
      registry: ofSampling,
    });
    this.#refusals = new Counter({
      name: 'trainyard_key_limit_refusals_total',
      help: 'Requests refused by a key limit, by limit.',
      labelNames: ['limit'],
      registers,
    });
    this.#stalledReaders = new Counter({
      name: 'trainyard_stalled_readers_total',
      help: 'Responses ended because their clients read nothing.',
      registers,
    });
    this.#ignoredFields = new Counter({
      name: 'trainyard_ignored_fields_total',
      help: 'Unknown fields in sampling requests, by route.',
      labelNames: ['handler'],
      registers,
    });
    // Series start at 0: Prometheus does not see the first increase of an absent one.
    for (const limit of Object.values(KEY_LIMIT_NAMES)) this.#refusals.inc({ limit }, 0);
    this.#addSampling(ofSampling);
    this.#addTraining(ofTraining);
    this.#addQueue();
    this.#addCheckpoints();
  }

  readonly contentType = Registry.PROMETHEUS_CONTENT_TYPE;

  /** Sources of snapshots; without them those series are omitted. */
  set sources(sources: MetricSources) {
    this.#sources = sources;
    const ids = sources.inference?.models.map(({ id }) => id) ?? [];
    for (const id of ids) this.inference.add(id);
    // With one model, all series get its name, for dashboards that filter by it.
    if (sources.inference !== undefined)
      this.#registry.setDefaultLabels({ ...(ids.length === 1 ? { model_name: ids[0] } : {}), engine: '0' });
  }

  /** @param handler the route's pattern, never the path: paths contain names and ids */
  countRequest(handler: string, method: string, status: number, seconds: number): void {
    this.#requests.of(handler, method, `${Math.floor(status / 100)}xx`).add();
    this.#durations.of(handler, method).add(seconds);
  }

  countRefusal(limit: keyof KeyLimits): void {
    this.#refusals.inc({ limit: KEY_LIMIT_NAMES[limit] });
  }

  countStalledReader(): void {
    this.#stalledReaders.inc();
  }

  /** @param handler as of `countRequest` */
  countIgnoredFields(handler: string, numFields: number): void {
    this.#ignoredFields.inc({ handler }, numFields);
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  #addSampling(registry: Registry): void {
    this.#gauge(registry, 'vllm:num_requests_running', 'Choices in the batch.', ({ numRunning }) => numRunning);
    this.#gauge(
      registry,
      'vllm:num_requests_waiting',
      'Choices waiting for space in the KV cache.',
      ({ numWaiting }) => numWaiting,
    );
    this.#gauge(registry, 'vllm:kv_cache_usage_perc', 'Used share of the KV cache, 0 to 1.', usedPart);
    this.#total(
      registry,
      'vllm:prompt_tokens_total',
      'Prompt tokens of started requests.',
      (stats) => stats.promptTokens,
    );
    this.#total(registry, 'vllm:generation_tokens_total', 'Tokens sampled.', (stats) => stats.generatedTokens);
    this.#total(registry, 'vllm:num_preemptions_total', 'Preempted choices.', (stats) => stats.numPreemptions);
    this.#total(
      registry,
      'vllm:prefix_cache_queries_total',
      'Prompt tokens looked for in memory.',
      (stats) => stats.prefixQueryTokens,
    );
    this.#total(
      registry,
      'vllm:prefix_cache_hits_total',
      'Prompt tokens found in memory.',
      (stats) => stats.prefixHitTokens,
    );
    this.#gauge(
      registry,
      'trainyard_engine_requests',
      'Requests in the engine, of all choices.',
      (stats) => stats.numRequests,
    );
    this.#gauge(registry, 'trainyard_engine_adapters', 'Adapters in memory.', (stats) => stats.numAdapters);
    this.#gauge(
      registry,
      'trainyard_engine_adapter_bytes',
      'Memory of these adapters; idle ones are dropped above --adapter-megabytes.',
      (stats) => stats.adapterBytes,
    );
    this.#total(registry, 'trainyard_engine_steps_total', 'Steps of the engine.', (stats) => stats.numSteps);
    this.#up(registry, 'trainyard_inference_up', '1 while sampling works.', () => this.#sources?.inference);
    for (const [name, help, read] of MEMBER_FIGURES) this.#memberFigure(registry, name, help, read);
  }

  #addTraining(registry: Registry): void {
    this.#up(registry, 'trainyard_training_up', '1 while training works.', () => this.#sources?.training);
  }

  #addQueue(): void {
    const registers = [this.#registry];
    const jobs = new Gauge({
      name: 'trainyard_jobs',
      help: 'Training jobs that have not ended, by status; from the database, so the same in every process.',
      labelNames: ['status'],
      registers,
      collect: async () => {
        const figures = await this.#figures();
        jobs.reset();
        if (figures === null) return;
        jobs.set({ status: 'queued' }, figures.queued);
        jobs.set({ status: 'running' }, figures.running);
      },
    });
    const age = new Gauge({
      name: 'trainyard_oldest_queued_job_seconds',
      help: 'Longest wait of a queued job, 0 when none waits; same source as trainyard_jobs.',
      registers,
      collect: async () => {
        const figures = await this.#figures();
        age.reset();
        if (figures !== null) age.set(figures.oldestSeconds);
      },
    });
  }

  #addCheckpoints(): void {
    const bytes = new Gauge({
      name: 'trainyard_checkpoint_bytes',
      help: 'Files of kept checkpoints, by part: adapter or optimizer. Same source as trainyard_jobs; up to a minute old.',
      labelNames: ['part'],
      registers: [this.#registry],
      collect: async () => {
        const totals = await Promise.resolve(this.#sources?.checkpoints() ?? null).catch(() => null);
        bytes.reset();
        if (totals === null) return;
        bytes.set({ part: 'adapter' }, totals.sizeBytes);
        bytes.set({ part: 'optimizer' }, totals.optimizerBytes);
      },
    });
  }

  /** All figures of a scrape share one read. Null while the database does not answer: the rest is reported. */
  async #figures(): Promise<QueueFigures | null> {
    this.#looking ??= Promise.resolve(this.#sources?.queue() ?? null)
      .catch(() => null)
      .finally(() => (this.#looking = null));
    return await this.#looking;
  }

  /** Gauge by base model; 0 while it is not in memory. */
  #gauge(registry: Registry, name: string, help: string, read: (stats: EngineStats) => number): void {
    const gauge = new Gauge({
      name,
      help,
      labelNames: ['model_name'],
      registers: [registry],
      collect: () => {
        gauge.reset();
        for (const [model_name, stats] of this.#stats()) gauge.set({ model_name }, stats === null ? 0 : read(stats));
      },
    });
  }

  /** Total from another counter, by base model; restarts with its source. */
  #total(registry: Registry, name: string, help: string, read: (stats: EngineStats) => number): void {
    const counter = new Counter({
      name,
      help,
      labelNames: ['model_name'],
      registers: [registry],
      collect: () => {
        counter.reset();
        for (const [model_name, stats] of this.#stats()) counter.inc({ model_name }, stats === null ? 0 : read(stats));
      },
    });
  }

  /** Gauge by base model and server, if remote servers sample. */
  #memberFigure(registry: Registry, name: string, help: string, read: (member: BackendMember) => number): void {
    const gauge = new Gauge({
      name,
      help,
      labelNames: ['model_name', 'server'],
      registers: [registry],
      collect: async () => {
        const { inference } = this.#sources ?? {};
        // Figures are as of the last health check. All gauges of a scrape share this one.
        await inference?.problem();
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
    // Remote engines report their own: two API processes with the same engines would count them twice.
    if (inference?.isRemote === true) return [];
    return (inference?.models ?? []).map(({ id }) => [id, inference?.of(id).stats() ?? null]);
  }

  #up(registry: Registry, name: string, help: string, part: () => { problem(): Problem } | undefined): void {
    const gauge = new Gauge({
      name,
      help,
      registers: [registry],
      collect: async () => {
        const source = part();
        gauge.set(source !== undefined && (await source.problem()) === null ? 1 : 0);
      },
    });
  }
}

const MEMBER_FIGURES: readonly (readonly [name: string, help: string, read: (member: BackendMember) => number])[] = [
  ['trainyard_server_up', '1 while the server accepts requests.', ({ state }) => (state === 'up' ? 1 : 0)],
  ['trainyard_server_choices', 'Choices in flight on the server.', ({ numChoices }) => numChoices],
  ['trainyard_server_adapters', 'Adapters loaded on the server.', ({ numAdapters }) => numAdapters],
  ['trainyard_server_requests_total', 'Requests sent to the server.', ({ numRequests }) => numRequests],
  ['trainyard_server_failures_total', 'Requests that failed because of the server.', ({ numFailures }) => numFailures],
  ['trainyard_server_losses_total', 'Number of times the server was lost.', ({ numLosses }) => numLosses],
  ['trainyard_server_tokens_total', 'Tokens that the server sampled.', ({ numTokens }) => numTokens],
];

function usedPart({ capacityTokens, usedTokens }: EngineStats): number {
  return capacityTokens === 0 ? 0 : usedTokens / capacityTokens;
}
