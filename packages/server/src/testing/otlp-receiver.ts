import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ReceivedSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** '' for a root. */
  readonly parentSpanId: string;
  /** 1 internal, 2 server. */
  readonly kind: number;
  /** Nanoseconds since the epoch. */
  readonly startedAt: bigint;
  readonly endedAt: bigint;
  /** 0 unset, 2 error. */
  readonly status: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly events: readonly string[];
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly resource: Readonly<Record<string, unknown>>;
}

/** A receiver of OTLP over HTTP in JSON, like a collector. */
export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  /** All bodies, to check that they do not contain secrets. */
  readonly bodies: string[] = [];
  readonly headers: IncomingHttpHeaders[] = [];
  /** Kind of the next answers: accepted, refused, or none. */
  behaviour: 'takes' | 'refuses' | 'hangs' = 'takes';
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<OtlpReceiver> {
    const server = createServer();
    const receiver = new OtlpReceiver(server);
    server.on('request', (request, response) => {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => pieces.push(piece));
      request.on('end', () => {
        if (receiver.behaviour === 'hangs') return;
        if (receiver.behaviour === 'refuses') {
          response.writeHead(403).end();
          return;
        }
        receiver.#take(request.url ?? '', request.headers, Buffer.concat(pieces).toString('utf8'));
        response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return receiver;
  }

  /** Value for `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  named(name: string): ReceivedSpan[] {
    return this.spans.filter((span) => span.name === name);
  }

  /** @throws for none or more than one */
  only(name: string): ReceivedSpan {
    const [span, ...others] = this.named(name);
    if (span !== undefined && others.length === 0) return span;
    const names = this.spans.map((other) => other.name).join(', ');
    throw new Error(`${others.length + (span === undefined ? 0 : 1)} spans are called ${name}; there are ${names}`);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #take(url: string, headers: IncomingHttpHeaders, body: string): void {
    if (url !== '/v1/traces') throw new Error(`traces came to ${url}`);
    this.bodies.push(body);
    this.headers.push(headers);
    for (const { resource, scopeSpans } of (JSON.parse(body) as OtlpRequest).resourceSpans) {
      const spans = scopeSpans.flatMap((scope) => scope.spans);
      this.spans.push(...spans.map((span) => read(span, toObject(resource.attributes))));
    }
  }
}

interface OtlpRequest {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly KeyValue[] };
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[];
  }[];
}

interface OtlpSpan {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status?: { readonly code?: number };
  readonly attributes?: readonly KeyValue[];
  readonly events?: readonly { readonly name: string }[];
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
}

interface KeyValue {
  readonly key: string;
  readonly value: AnyValue;
}

interface AnyValue {
  readonly stringValue?: string;
  readonly boolValue?: boolean;
  readonly intValue?: string | number;
  readonly doubleValue?: number;
  readonly arrayValue?: { readonly values?: readonly AnyValue[] };
}

function read(span: OtlpSpan, resource: Record<string, unknown>): ReceivedSpan {
  return {
    name: span.name,
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId ?? '',
    kind: span.kind,
    startedAt: BigInt(span.startTimeUnixNano),
    endedAt: BigInt(span.endTimeUnixNano),
    status: span.status?.code ?? 0,
    attributes: toObject(span.attributes ?? []),
    events: (span.events ?? []).map(({ name }) => name),
    links: (span.links ?? []).map(({ traceId, spanId }) => ({ traceId, spanId })),
    resource,
  };
}

function toObject(pairs: readonly KeyValue[]): Record<string, unknown> {
  return Object.fromEntries(pairs.map(({ key, value }) => [key, toValue(value)]));
}

function toValue({ stringValue, boolValue, intValue, doubleValue, arrayValue }: AnyValue): unknown {
  if (arrayValue !== undefined) return (arrayValue.values ?? []).map(toValue);
  return stringValue ?? boolValue ?? doubleValue ?? (intValue === undefined ? undefined : Number(intValue));
}
