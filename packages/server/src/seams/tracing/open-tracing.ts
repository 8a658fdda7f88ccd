import { randomBytes } from 'node:crypto';

import {
  type Context,
  defaultTextMapGetter,
  diag,
  DiagLogLevel,
  ROOT_CONTEXT,
  type SpanContext,
} from '@opentelemetry/api';
import type { SpanExporter } from '@opentelemetry/sdk-trace-base';

import type { Log } from '../logging/log.ts';
import { FLUSH_MS, type Tracing } from './tracing.ts';

export interface TracingOptions {
  readonly serviceVersion: string;
  readonly role: string;
  readonly instance: string;
  readonly log: Log;
}

/**
 * Tracing by the standard variables of OpenTelemetry, which the libraries read from the process's
 * environment. Sends OTLP over HTTP in JSON, in batches: spans that cannot be sent are dropped.
 * @returns null, with no library loaded, unless `OTEL_EXPORTER_OTLP_ENDPOINT` is set or
 * `OTEL_TRACES_EXPORTER` is `otlp`
 * @see https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
 */
export async function openTracing({ serviceVersion, role, instance, log }: TracingOptions): Promise<Tracing | null> {
  if (!isAskedFor(process.env, log)) return null;
  const [sdk, { OTLPTraceExporter }, resources, { W3CTraceContextPropagator }] = await Promise.all([
    import('@opentelemetry/sdk-trace-base'),
    import('@opentelemetry/exporter-trace-otlp-http'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/core'),
  ]);
  const warn = (message: string) => log(`traces: ${withoutPasswords(message)}`, { level: 'warn' });
  const ids = new GivenIds();
  const provider = await withWarnings(warn, () => {
    const known = resources.resourceFromAttributes({
      'service.name': 'trainyard',
      'service.version': serviceVersion,
      'service.instance.id': instance,
      'trainyard.role': role,
    });
    return new sdk.BasicTracerProvider({
      resource: resources
        .defaultResource()
        .merge(known)
        .merge(resources.detectResources({ detectors: [resources.envDetector] })),
      idGenerator: ids,
      spanProcessors: [new sdk.BatchSpanProcessor(new ToldExporter(new OTLPTraceExporter(), log))],
    });
  });
  const propagator = new W3CTraceContextPropagator();
  return {
    tracer: provider.getTracer('trainyard', serviceVersion),
    contextOf: (headers): Context => propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter),
    withIds: (given, start) => ids.give(given, start),
    close: async () => {
      const late = Promise.withResolvers<void>();
      const timer = setTimeout(late.resolve, FLUSH_MS);
      // The exporter has logged failures.
      await Promise.race([provider.shutdown().catch(() => undefined), late.promise]);
      clearTimeout(timer);
    },
  };
}

function isAskedFor(environment: NodeJS.ProcessEnv, log: Log): boolean {
  const valueOf = (name: string) => environment[name]?.trim() ?? '';
  if (valueOf('OTEL_SDK_DISABLED').toLowerCase() === 'true') return false;
  const exporters = valueOf('OTEL_TRACES_EXPORTER')
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean);
  const unknown = exporters.filter((name) => name !== 'otlp' && name !== 'none');
  if (unknown.length > 0) {
    log(`traces: OTEL_TRACES_EXPORTER is ${unknown.join(',')}, expected otlp or none`, {
      level: 'warn',
    });
  }
  if (exporters.length > 0) return exporters.includes('otlp');
  return valueOf('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT') !== '' || valueOf('OTEL_EXPORTER_OTLP_ENDPOINT') !== '';
}

/** The libraries report unreadable variables to one logger per process: it is ours while they read them. */
async function withWarnings<Result>(warn: (message: string) => void, open: () => Result): Promise<Result> {
  const ignore = () => undefined;
  diag.setLogger(
    { error: warn, warn, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  try {
    return open();
  } finally {
    diag.disable();
  }
}

function withoutPasswords(text: string): string {
  return text.replaceAll(/\/\/[^/@\s]*@/g, '//…@');
}

/** Random ids, except those set for one span. */
class GivenIds {
  #given: Pick<SpanContext, 'traceId' | 'spanId'> | null = null;

  give<Result>(ids: Pick<SpanContext, 'traceId' | 'spanId'>, start: () => Result): Result {
    this.#given = ids;
    try {
      return start();
    } finally {
      this.#given = null;
    }
  }

  // The libraries call them without their object.
  generateTraceId = (): string => this.#given?.traceId ?? randomBytes(16).toString('hex');
  generateSpanId = (): string => this.#given?.spanId ?? randomBytes(8).toString('hex');
}

/** Logs once when spans are refused, and once when they are accepted again. */
class ToldExporter implements SpanExporter {
  readonly #inner: SpanExporter;
  readonly #log: Log;
  #isRefused = false;

  constructor(inner: SpanExporter, log: Log) {
    this.#inner = inner;
    this.#log = log;
  }

  export(...[spans, done]: Parameters<SpanExporter['export']>): void {
    this.#inner.export(spans, (result) => {
      const { error } = result;
      if (error !== undefined && !this.#isRefused) {
        const { code } = error as NodeJS.ErrnoException;
        const reason = withoutPasswords(error.message || String(code ?? 'no answer'));
        this.#log(`the collector does not accept traces; they are dropped: ${reason}`, { level: 'warn' });
      } else if (error === undefined && this.#isRefused) this.#log('the collector accepts traces again');
      this.#isRefused = error !== undefined;
      done(result);
    });
  }

  async forceFlush(): Promise<void> {
    await this.#inner.forceFlush?.();
  }

  async shutdown(): Promise<void> {
    await this.#inner.shutdown();
  }
}
