import type { Context, SpanContext, Tracer } from '@opentelemetry/api';

/** Whoever makes spans and sends them out. Where nobody asked for traces there is none, and nothing that sends is loaded. */
export interface Tracing {
  readonly tracer: Tracer;
  /** The trace that a request belongs to, by its headers `traceparent` and `tracestate`; without valid ones a context of no trace. */
  contextOf(headers: Readonly<Record<string, string | string[] | undefined>>): Context;
  /** Does `start`, and the next span that begins a trace there has these ids, so that whoever knows them names the same span. */
  withIds<Result>(ids: Pick<SpanContext, 'traceId' | 'spanId'>, start: () => Result): Result;
  /** Sends what waits, for {@link FLUSH_MS} at most, and nothing after. */
  close(): Promise<void>;
}

/** How long an end of the service waits for what is still to be sent. */
export const FLUSH_MS = 5_000;
