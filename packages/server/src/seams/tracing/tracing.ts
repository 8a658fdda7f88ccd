import type { Context, SpanContext, Tracer } from '@opentelemetry/api';

/** Creates and sends spans. Absent without tracing, and then no exporter is loaded. */
export interface Tracing {
  readonly tracer: Tracer;
  /**
   * Trace context from the headers `traceparent` and `tracestate`; without valid ones a context without a
   * trace.
   */
  contextOf(headers: Readonly<Record<string, string | string[] | undefined>>): Context;
  /** Runs `start`. The next root span in it gets these ids, so that other processes can refer to it. */
  withIds<Result>(ids: Pick<SpanContext, 'traceId' | 'spanId'>, start: () => Result): Result;
  /** Sends waiting spans, for at most {@link FLUSH_MS}, and none after. */
  close(): Promise<void>;
}

/** Maximum wait for unsent spans at the end of the service. */
export const FLUSH_MS = 5_000;
