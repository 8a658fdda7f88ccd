import type { EngineEvent } from '@trainyard/generation';
import type { Registry } from 'prom-client';

import type { InferenceRequest } from '../contract/backends.ts';
import { ObservedEvents } from '../streams/observed-events.ts';
import { Counts, type Spread, Spreads } from './metric-series.ts';

/** Label of the served model's name, as in vLLM. */
const MODEL = 'model_name';
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];
const TOKENS = [1, 8, 32, 128, 512, 2048, 8192, 32_768];

type Label = typeof MODEL;

interface ModelTimings {
  readonly model: string;
  readonly timeToFirstToken: Spread;
  readonly interToken: Spread;
  readonly perToken: Spread;
  readonly endToEnd: Spread;
  readonly queue: Spread;
  readonly prefill: Spread;
  readonly decode: Spread;
  readonly inference: Spread;
  readonly promptTokens: Spread;
  readonly generationTokens: Spread;
  readonly paramsN: Spread;
  readonly paramsMaxTokens: Spread;
}

/** Request timings by base model, under vLLM's names. One per request, over all its choices. */
export class InferenceMetrics {
  readonly #ends: Counts<Label | 'finished_reason'>;
  readonly #spreads: Readonly<Record<keyof Omit<ModelTimings, 'model'>, Spreads<Label>>>;
  readonly #ofModels = new Map<string, ModelTimings>();
  readonly #now: () => number;

  constructor(registry: Registry, now: () => number = () => performance.now() / 1000) {
    this.#now = now;
    this.#ends = new Counts({
      name: 'vllm:request_success_total',
      help: 'Finished choices, by reason; abort and error for cancelled and failed requests.',
      labelNames: [MODEL, 'finished_reason'],
      registry,
    });
    const spread = (bounds: readonly number[]) => (name: string, help: string) =>
      new Spreads({ name: `vllm:${name}`, help, labelNames: [MODEL], bounds, registry });
    const [seconds, tokens] = [spread(SECONDS), spread(TOKENS)];
    this.#spreads = {
      timeToFirstToken: seconds('time_to_first_token_seconds', 'Time from arrival to the first token.'),
      interToken: seconds('inter_token_latency_seconds', 'Time between tokens, for requests with one choice.'),
      perToken: seconds('request_time_per_output_token_seconds', 'Mean decoding time per token of a request.'),
      endToEnd: seconds('e2e_request_latency_seconds', 'Time from arrival to the end.'),
      queue: seconds('request_queue_time_seconds', 'Time from arrival to admission.'),
      prefill: seconds('request_prefill_time_seconds', 'Time from admission to the first token.'),
      decode: seconds('request_decode_time_seconds', 'Time from the first token to the end.'),
      inference: seconds('request_inference_time_seconds', 'Time from admission to the end.'),
      promptTokens: tokens('request_prompt_tokens', 'Tokens of the prompt.'),
      generationTokens: tokens('request_generation_tokens', 'Tokens sampled, over all choices.'),
      paramsN: tokens('request_params_n', 'Requested choices.'),
      paramsMaxTokens: tokens('request_params_max_tokens', 'Requested tokens per reply.'),
    };
  }

  /** Reports this model from now on, even before its first request. */
  add(model: string): void {
    this.#of(model);
  }

  /**
   * Passes the events of one request on and records them.
   * @param model id of the base model
   */
  measure(model: string, request: InferenceRequest, events: AsyncIterable<EngineEvent>): AsyncIterable<EngineEvent> {
    const timings = this.#of(model);
    timings.paramsN.add(request.n);
    if (request.maxTokens !== null) timings.paramsMaxTokens.add(request.maxTokens);
    const timed = new TimedRequest(request.n, timings, this.#ends, this.#now);
    return new ObservedEvents(events, { see: (event) => timed.see(event), onEnd: () => timed.end() });
  }

  #of(model: string): ModelTimings {
    const known = this.#ofModels.get(model);
    if (known !== undefined) return known;
    const spreads = Object.entries(this.#spreads).map(([name, spread]) => [name, spread.of(model)]);
    const timings = { model, ...Object.fromEntries(spreads) } as ModelTimings;
    this.#ofModels.set(model, timings);
    return timings;
  }
}

/** Times of one request, seconds of a monotonic clock. */
class TimedRequest {
  readonly #timings: ModelTimings;
  readonly #ends: Counts<Label | 'finished_reason'>;
  readonly #now: () => number;
  readonly #numChoices: number;
  readonly #begun: number;
  #numOpen: number;
  #hasFailed = false;
  #started: number | null = null;
  #first: number | null = null;
  #latest = 0;
  #promptTokens = 0;
  #completionTokens = 0;

  constructor(numChoices: number, timings: ModelTimings, ends: Counts<Label | 'finished_reason'>, now: () => number) {
    this.#timings = timings;
    this.#ends = ends;
    this.#now = now;
    this.#numChoices = numChoices;
    this.#numOpen = numChoices;
    this.#begun = now();
  }

  see(event: EngineEvent): void {
    const now = this.#now();
    const timings = this.#timings;
    this.#hasFailed = event.kind === 'failed';
    if (event.kind === 'started') {
      // Only once: another engine may restart the request, and the tokens of the lost one do not count.
      if (this.#started === null) timings.queue.add(now - this.#begun);
      this.#started ??= now;
      this.#promptTokens = event.promptTokenIds.length;
      this.#completionTokens = 0;
      this.#numOpen = this.#numChoices;
    }
    if (event.kind === 'finished') {
      this.#numOpen -= 1;
      this.#ends.of(timings.model, event.finishReason).add();
    }
    if ((event.kind !== 'delta' && event.kind !== 'finished') || event.tokenIds.length === 0) return;
    if (this.#first === null) {
      this.#first = now;
      timings.timeToFirstToken.add(now - this.#begun);
      if (this.#started !== null) timings.prefill.add(now - this.#started);
    } else if (this.#numChoices === 1) timings.interToken.add((now - this.#latest) / event.tokenIds.length);
    this.#latest = now;
    this.#completionTokens += event.tokenIds.length;
  }

  end(): void {
    // Requests refused before they started are not counted as ended by the engine.
    if (this.#started === null) return;
    const timings = this.#timings;
    const now = this.#now();
    if (this.#numOpen > 0) this.#ends.of(timings.model, this.#hasFailed ? 'error' : 'abort').add(this.#numOpen);
    timings.endToEnd.add(now - this.#begun);
    timings.inference.add(now - this.#started);
    timings.promptTokens.add(this.#promptTokens);
    timings.generationTokens.add(this.#completionTokens);
    if (this.#first === null) return;
    timings.decode.add(now - this.#first);
    if (this.#completionTokens > 1) timings.perToken.add((now - this.#first) / (this.#completionTokens - 1));
  }
}
