import { isSpanContextValid, type SpanContext, TraceFlags } from '@opentelemetry/api';
import type { FastifyRequest } from 'fastify';

/** `00-<trace>-<span>-<flags>`, W3C Trace Context. */
const TRACE_PARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;

/** Formats the span as a `traceparent`, for a row or a header. */
export function toTraceParent({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}

/** @returns null for an invalid `traceparent` */
export function readTraceParent(text: string | null): SpanContext | null {
  const [, traceId, spanId, flags] = TRACE_PARENT.exec(text ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  const traceFlags = Number.parseInt(flags, 16) & TraceFlags.SAMPLED;
  const context = { traceId, spanId, traceFlags, isRemote: true };
  return isSpanContextValid(context) ? context : null;
}

export function traceParentOf({ span, headers }: Pick<FastifyRequest, 'span' | 'headers'>): string | null {
  if (span !== null) return toTraceParent(span.spanContext());
  const sent = headers['traceparent'];
  return typeof sent === 'string' && readTraceParent(sent) !== null ? sent : null;
}

/** Trace id of a request, for the log; null without one. */
export function traceIdOf(request: Pick<FastifyRequest, 'span' | 'headers'>): string | null {
  return readTraceParent(traceParentOf(request))?.traceId ?? null;
}
