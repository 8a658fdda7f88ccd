import { type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api';

import type { RequestOrigin } from '../contract/backends.ts';
import { toTraceParent } from './trace-parent.ts';
import type { Tracing } from './tracing.ts';

/**
 * The work of an engine for a process on another machine, as a part of the generation there, which has the tokens and the times. Null where nobody asked for
 * traces, here or there.
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

/** The request for whoever samples behind the engine: a part of its span, where it has one. */
export function originBelow(span: Span | null, origin: RequestOrigin): RequestOrigin {
  return span === null ? origin : { ...origin, traceParent: toTraceParent(span.spanContext()) };
}

/** It ended by a refusal or a failure of the engine. */
export function tellEngineFault(span: Span | null, error: unknown): void {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'internal';
  span?.setAttribute('error.type', code);
  span?.setStatus({ code: SpanStatusCode.ERROR });
}
