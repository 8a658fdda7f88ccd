import type { EngineEvent } from '@trainyard/generation';
import { Counter, Histogram, type Registry } from 'prom-client';

import type { InferenceRequest } from '../contract/backends.ts';

/** The label that vLLM gives the name of the served model. */
const MODEL = 'model_name';
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const TOKENS = [1, 8, 32, 128, 512, 2048, 8192, 32_768];

type Label = typeof MODEL;
type Labels = Record<Label, string>;

/** When one request did what, seconds of a monotonic clock. */
interface Progress {
  begun: number;
  /** Its prompt was admitted. */
  started: number | null;
  /** Its first and its latest token. */
  first: number | null;
  latest: number;
  promptTokens: number;
  completionTokens: number;
}

/** Timings of requests by base model, under vLLM's names. One a request, over all its choices. */
export class InferenceMetrics {
  readonly #registry: Registry;
  readonly #ends: Counter<Label | 'finished_reason'>;
  readonly #timeToFirstToken: Histogram<Label>;
  readonly #interToken: Histogram<Label>;
  readonly #perToken: Histogram<Label>;
  readonly #endToEnd: Histogram<Label>;
  readonly #queue: Histogram<Label>;
  readonly #prefill: Histogram<Label>;
  readonly #decode: Histogram<Label>;
  readonly #inference: Histogram<Label>;
  readonly #promptTokens: Histogram<Label>;
  readonly #generationTokens: Histogram<Label>;
  readonly #paramsN: Histogram<Label>;
  readonly #paramsMaxTokens: Histogram<Label>;
  readonly #now: () => number;

  constructor(registry: Registry, now: () => number = () => performance.now() / 1000) {
    this.#registry = registry;
    this.#now = now;
    this.#ends = new Counter({
      name: 'vllm:request_success_total',
      help: 'Choices that ended, by reason; those of requests that were left or failed: abort, error.',
      labelNames: [MODEL, 'finished_reason'],
      registers: [registry],
    });
    this.#timeToFirstToken = this.#seconds('time_to_first_token_seconds', 'From the arrival to the first token.');
    this.#interToken = this.#seconds('inter_token_latency_seconds', 'Between tokens of a request of one choice.');
    this.#perToken = this.#seconds('request_time_per_output_token_seconds', 'Decoding by token, mean of a request.');
    this.#endToEnd = this.#seconds('e2e_request_latency_seconds', 'From the arrival to the end.');
    this.#queue = this.#seconds('request_queue_time_seconds', 'From the arrival to the admission.');
    this.#prefill = this.#seconds('request_prefill_time_seconds', 'From the admission to the first token.');
    this.#decode = this.#seconds('request_decode_time_seconds', 'From the first token to the end.');
    this.#inference = this.#seconds('request_inference_time_seconds', 'From the admission to the end.');
    this.#promptTokens = this.#tokens('request_prompt_tokens', 'Tokens of the prompt.');
    this.#generationTokens = this.#tokens('request_generation_tokens', 'Tokens sampled, over all choices.');
    this.#paramsN = this.#tokens('request_params_n', 'Choices asked for.');
    this.#paramsMaxTokens = this.#tokens('request_params_max_tokens', 'Tokens of a reply asked for.');
  }

  /** Timings of this model are told from now on, also while there is none. */
  add(model: string): void {
    const timings = [
      this.#timeToFirstToken,
      this.#interToken,
      this.#perToken,
      this.#endToEnd,
      this.#queue,
      this.#prefill,
      this.#decode,
      this.#inference,
      this.#promptTokens,
      this.#generationTokens,
      this.#paramsN,
      this.#paramsMaxTokens,
    ];
    for (const timing of timings) timing.zero({ [MODEL]: model });
  }

  /**
   * Passes the events of one request on and counts what they say.
   *
   * @param model id of the base model
   */
  async *measure(
    model: string,
    request: InferenceRequest,
    events: AsyncIterable<EngineEvent>,
  ): AsyncGenerator<EngineEvent> {
    const labels = { [MODEL]: model };
    const progress: Progress = {
      begun: this.#now(),
      started: null,
      first: null,
      latest: 0,
      promptTokens: 0,
      completionTokens: 0,
    };
    let numOpen = request.n;
    let hasFailed = false;
    this.#paramsN.observe(labels, request.n);
    if (request.maxTokens !== null) this.#paramsMaxTokens.observe(labels, request.maxTokens);
    try {
      for await (const event of events) {
        if (event.kind === 'finished') {
          numOpen -= 1;
          this.#ends.inc({ ...labels, finished_reason: event.finishReason });
        }
        hasFailed = event.kind === 'failed';
        this.#observe(event, progress, labels, request.n);
        yield event;
      }
    } finally {
      // What was refused before it began is no request that the engine ended.
      if (progress.started !== null) {
        if (numOpen > 0) this.#ends.inc({ ...labels, finished_reason: hasFailed ? 'error' : 'abort' }, numOpen);
        this.#end(progress, labels, progress.started);
      }
    }
  }

  #observe(event: EngineEvent, progress: Progress, labels: Labels, numChoices: number): void {
    const now = this.#now();
    if (event.kind === 'started') {
      progress.started = now;
      progress.promptTokens = event.promptTokenIds.length;
      this.#queue.observe(labels, now - progress.begun);
    }
    if ((event.kind !== 'delta' && event.kind !== 'finished') || event.tokenIds.length === 0) return;
    if (progress.first === null) {
      progress.first = now;
      this.#timeToFirstToken.observe(labels, now - progress.begun);
      if (progress.started !== null) this.#prefill.observe(labels, now - progress.started);
    } else if (numChoices === 1) this.#interToken.observe(labels, (now - progress.latest) / event.tokenIds.length);
    progress.latest = now;
    progress.completionTokens += event.tokenIds.length;
  }

  #end({ begun, first, promptTokens, completionTokens }: Progress, labels: Labels, started: number): void {
    const now = this.#now();
    this.#endToEnd.observe(labels, now - begun);
    this.#inference.observe(labels, now - started);
    this.#promptTokens.observe(labels, promptTokens);
    this.#generationTokens.observe(labels, completionTokens);
    if (first === null) return;
    this.#decode.observe(labels, now - first);
    if (completionTokens > 1) this.#perToken.observe(labels, (now - first) / (completionTokens - 1));
  }

  #seconds(name: string, help: string): Histogram<Label> {
    return this.#histogram(name, help, SECONDS);
  }

  #tokens(name: string, help: string): Histogram<Label> {
    return this.#histogram(name, help, TOKENS);
  }

  #histogram(name: string, help: string, buckets: number[]): Histogram<Label> {
    const registers = [this.#registry];
    return new Histogram({ name: `vllm:${name}`, help, labelNames: [MODEL], buckets, registers });
  }
}
