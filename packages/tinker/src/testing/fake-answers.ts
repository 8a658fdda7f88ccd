import type { IncomingMessage, ServerResponse } from 'node:http';

export interface Answer {
  readonly status: number;
  /** Default JSON; null: none. */
  readonly type?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: Uint8Array | string;
}

export type OperationResult =
  | { readonly kind: 'json'; readonly value: object }
  | { readonly kind: 'pass'; readonly protobuf: Uint8Array; readonly value: object }
  | { readonly kind: 'failed'; readonly message: string };

/** Marks a body that is not JSON. */
const NO_JSON = Symbol('no JSON');

/** SkyRL refuses requests without these. */
const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  create_session: ['tags', 'sdk_version'],
  session_heartbeat: ['session_id'],
  create_model: ['session_id', 'base_model', 'lora_config'],
  unload_model: ['model_id'],
  get_info: ['model_id'],
  optim_step: ['model_id', 'adam_params'],
  save_weights: ['model_id', 'path'],
  save_weights_for_sampler: ['model_id'],
  load_weights: ['model_id', 'path'],
  retrieve_future: ['request_id'],
};

export function json(value: object, status = 200): Answer {
  return { status, body: JSON.stringify(value) };
}

export function done(value: object): OperationResult {
  return { kind: 'json', value };
}

export function failed(message: string): OperationResult {
  return { kind: 'failed', message };
}

/** Sends the length, too: clients take a 400 without one for a proxy's, and retry. */
export function send(response: ServerResponse, { status, type = 'application/json', headers, body }: Answer): void {
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
  response.writeHead(status, {
    ...(type === null ? {} : { 'content-type': type }),
    ...(status === 204 ? {} : { 'content-length': String(length) }),
    ...headers,
  });
  response.end(body);
}

export function parsedOr<Otherwise>(bytes: Buffer, otherwise: Otherwise): unknown {
  if (bytes.length === 0) return otherwise;
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return NO_JSON;
  }
}

/** Refuses calls by a wrong method, or without JSON or its fields. @returns null if accepted */
export function refuseCall(
  request: IncomingMessage,
  route: string,
  { body }: { readonly body: unknown },
): Answer | null {
  const required = REQUIRED[route];
  if (required === undefined) return null;
  if (request.method !== 'POST') return json({ detail: 'Method Not Allowed' }, 405);
  if (body === NO_JSON)
    return json(
      {
        detail: [
          {
            type: 'json_invalid',
            loc: ['body', 0],
            msg: 'JSON decode error',
            input: {},
            ctx: { error: "Expecting ':' delimiter" },
          },
        ],
      },
      422,
    );
  const given = (body ?? {}) as object;
  const missing = required.filter((field) => !(field in given));
  if (missing.length === 0) return null;
  const entries = missing.map((field) => ({
    type: 'missing',
    loc: ['body', field],
    msg: 'Field required',
    input: given,
  }));
  return json({ detail: entries }, 422);
}

/** A token like a JWT that lasts an hour. */
export function token(): string {
  const now = Math.floor(Date.now() / 1000);
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  return `${part({ alg: 'none' })}.${part({ iat: now, exp: now + 3600 })}.signature`;
}
