import { type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api';

import type { RequestOrigin } from '../contract/backends.ts';
import { toTraceParent } from './trace-parent.ts';
import type { Tracing } from './tracing.ts';

/**
 * Span of an engine's work for a process on another machine. Its parent is the generation span there, which
 * has tokens and times. Null unless both sides trace.
 */
export function startEngineSpan(
  tracing: Tracing | null,
  model: string,
  origin: RequestOrigin | undefined,
): Span | null {
  if (tracing === null || origin?.traceParent == null) return null;
  return tracing.tracer.startSpan(
    'engine',
    {
      kind: SpanKind.SERVER,
      attributes: { 'trainyard.base_model': model, 'trainyard.request.id': origin.requestId },
    },
    tracing.contextOf({ traceparent: origin.traceParent }),
  );
}

/** Origin for the sampler after this engine: a child of its span, if there is one. */
export function originBelow(span: Span | null, origin: RequestOrigin): RequestOrigin {
  return span === null ? origin : { ...origin, traceParent: toTraceParent(span.spanContext()) };
}

export function recordEngineFault(span: Span | null, error: unknown): void {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'internal';
  span?.setAttribute('error.type', code);
  span?.setStatus({ code: SpanStatusCode.ERROR });
}
