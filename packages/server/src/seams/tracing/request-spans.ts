import { type Span, SpanKind, SpanStatusCode } from '@opentelemetry/api';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import type { GenAiOperation } from './generation-span.ts';
import type { Tracing } from './tracing.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Operation of its spans, on a route that samples. Default `chat`. */
    genAiOperation?: GenAiOperation;
  }
  interface FastifyRequest {
    /** Span of the request; null without tracing. */
    span: Span | null;
  }
}

/**
 * Creates a span for each request, from its head to the end of its answer, in the trace of its `traceparent`.
 * Call it after `trackRequestEnds`, before every other hook.
 * It has the route and no path: paths contain tenant names and sign-in links.
 * @see https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server-span
 */
export function traceRequests(app: FastifyInstance, tracing: Tracing | null): void {
  app.decorateRequest('span', null);
  if (tracing === null) return;
  app.addHook('onRequest', (request, reply, done) => {
    const { method, headers, id, routeOptions } = request;
    const route = routeOptions.url;
    const span = tracing.tracer.startSpan(
      route === undefined ? method : `${method} ${route}`,
      {
        kind: SpanKind.SERVER,
        attributes: {
          'http.request.method': method,
          ...(route === undefined ? {} : { 'http.route': route }),
          'url.scheme': request.protocol,
          'trainyard.request.id': id,
        },
      },
      tracing.contextOf(headers),
    );
    request.span = span;
    request.end.onEnd(() => {
      if (reply.raw.headersSent) recordStatus(span, reply.raw.statusCode);
      if (request.end.isAbandoned) span.setAttribute('trainyard.request.abandoned', true);
      span.end();
    });
    done();
  });
}

function recordStatus(span: Span, status: number): void {
  span.setAttribute('http.response.status_code', status);
  if (status < 500) return;
  span.setAttribute('error.type', String(status));
  span.setStatus({ code: SpanStatusCode.ERROR });
}

export function recordFault({ span }: Pick<FastifyRequest, 'span'>, code: string): void {
  span?.setAttribute('trainyard.error.code', code);
}
