import { type Attributes, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import type { EngineEvent } from '@trainyard/generation';

import { type InferenceRequest, type ModelInference, withGenerate } from '../contract/backends.ts';
import { ObservedEvents } from '../streams/observed-events.ts';
import { toTraceParent } from './trace-parent.ts';
import type { Tracing } from './tracing.ts';

/** Operation names from the GenAI semantic conventions; any chat endpoint uses `chat`. */
export type GenAiOperation = 'chat' | 'text_completion';

export interface GenerationAbout {
  readonly parent: Span;
  readonly operation: GenAiOperation;
  readonly requested: string;
  readonly model: string;
  readonly responseId: string;
  readonly isStream: boolean;
  readonly requestId: string;
}

/**
 * Wraps a model to record each generation as a span `chat <model>`: parameters, result, token counts and
 * times. Never any text.
 * @see https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/ for `gen_ai.*`; the latency
 * attributes are vLLM's
 */
export function tracedModel(inference: ModelInference, tracing: Tracing, about: GenerationAbout): ModelInference {
  return withGenerate(inference, (request, signal) => tracedEvents(inference, request, { signal, tracing, about }));
}

function tracedEvents(
  inference: ModelInference,
  request: InferenceRequest,
  { signal, tracing, about }: { signal: AbortSignal; tracing: Tracing; about: GenerationAbout },
): AsyncIterable<EngineEvent> {
  const span = tracing.tracer.startSpan(
    `${about.operation} ${about.requested}`,
    { kind: SpanKind.INTERNAL, attributes: { ...aboutAttributes(about), ...requestAttributes(request) } },
    trace.setSpan(ROOT_CONTEXT, about.parent),
  );
  const origin = { requestId: about.requestId, traceParent: toTraceParent(span.spanContext()) };
  const generation = new GenerationSpan(span, request.n);
  return new ObservedEvents(inference.generate({ ...request, origin }, signal), {
    see: (event) => generation.see(event),
    onEnd: () => generation.end(),
  });
}

function aboutAttributes({ operation, requested, model, responseId, isStream }: GenerationAbout): Attributes {
  return {
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': 'trainyard',
    'gen_ai.request.model': requested,
    'gen_ai.request.stream': isStream,
    'gen_ai.response.id': responseId,
    'gen_ai.response.model': model,
  };
}

function requestAttributes({ n, maxTokens, sampling }: InferenceRequest): Attributes {
  const { temperature, topP, topK, frequencyPenalty, presencePenalty, seed } = sampling;
  return {
    'gen_ai.request.temperature': temperature,
    'gen_ai.request.top_p': topP,
    'gen_ai.request.frequency_penalty': frequencyPenalty,
    'gen_ai.request.presence_penalty': presencePenalty,
    // Absent means all tokens.
    ...(topK > 0 ? { 'gen_ai.request.top_k': topK } : {}),
    ...(maxTokens === null ? {} : { 'gen_ai.request.max_tokens': maxTokens }),
    ...(n === 1 ? {} : { 'gen_ai.request.choice.count': n }),
    ...(seed === null ? {} : { 'gen_ai.request.seed': Number(seed) }),
  };
}

/** Times in seconds of a monotonic clock. */
const now = () => performance.now() / 1000;

class GenerationSpan {
  readonly #span: Span;
  readonly #begunAt = now();
  /** Indexed by choice; `abort` for choices that did not finish. */
  readonly #finishReasons: string[];
  #startedAt: number | null = null;
  #firstTokenAt: number | null = null;
  #numSampled = 0;

  constructor(span: Span, numChoices: number) {
    this.#span = span;
    this.#finishReasons = Array.from({ length: numChoices }, () => 'abort');
  }

  see(event: EngineEvent): void {
    const span = this.#span;
    switch (event.kind) {
      case 'started':
        // Tokens of a lost engine are not part of the answer.
        this.#numSampled = 0;
        this.#finishReasons.fill('abort');
        this.#startedAt = now();
        span.addEvent('admitted');
        span.setAttribute('gen_ai.latency.time_in_queue', this.#startedAt - this.#begunAt);
        span.setAttribute('gen_ai.usage.input_tokens', event.promptTokenIds.length);
        span.setAttribute('gen_ai.usage.cache_read.input_tokens', event.cachedTokens);
        break;
      case 'delta':
        this.#sampled(event.tokenIds.length);
        break;
      case 'finished':
        this.#sampled(event.tokenIds.length);
        this.#finishReasons[event.index] = event.finishReason;
        break;
      case 'failed':
        this.#finishReasons.fill('error');
        span.setAttribute('error.type', event.code);
        span.setStatus({ code: SpanStatusCode.ERROR });
        break;
      default:
        break;
    }
  }

  end(): void {
    const span = this.#span;
    span.setAttribute('gen_ai.response.finish_reasons', this.#finishReasons);
    span.setAttribute('gen_ai.usage.output_tokens', this.#numSampled);
    span.setAttribute('gen_ai.latency.e2e', now() - this.#begunAt);
    if (this.#firstTokenAt !== null)
      span.setAttribute('gen_ai.latency.time_in_model_decode', now() - this.#firstTokenAt);
    span.end();
  }

  #sampled(numTokens: number): void {
    if (numTokens === 0) return;
    this.#numSampled += numTokens;
    if (this.#firstTokenAt !== null) return;
    this.#firstTokenAt = now();
    const sinceBegin = this.#firstTokenAt - this.#begunAt;
    this.#span.addEvent('first token');
    this.#span.setAttribute('gen_ai.response.time_to_first_chunk', sinceBegin);
    this.#span.setAttribute('gen_ai.latency.time_to_first_token', sinceBegin);
    if (this.#startedAt !== null)
      this.#span.setAttribute('gen_ai.latency.time_in_model_prefill', this.#firstTokenAt - this.#startedAt);
  }
}
