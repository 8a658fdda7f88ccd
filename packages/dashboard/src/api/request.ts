import type { ErrorBody } from '@trainyard/sdk';

/** A request that the service refused, or that it could not be asked: the message is fit for people. */
export class RequestFailure extends Error {
  override readonly name = 'RequestFailure';
  /** 0 where no answer came. */
  readonly status: number;
  /** A stable name of the fault, such as `request.not_found`. */
  readonly code: string;
  readonly requestId: string | null;

  constructor(message: string, fault: { status: number; code: string; requestId: string | null }) {
    super(message);
    this.status = fault.status;
    this.code = fault.code;
    this.requestId = fault.requestId;
  }
}

export interface RequestParts {
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  /** Lists give the name several times; undefined and null leave it out. */
  readonly query?: Readonly<Record<string, string | number | readonly string[] | null | undefined>>;
}

/**
 * Asks the service for JSON, as the browser that is signed in.
 *
 * @param path below `/v1`
 * @throws {RequestFailure}
 */
export async function request<Answer>(
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  { body, signal, query = {} }: RequestParts = {},
): Promise<Answer> {
  const response = await send(`/v1${path}${queryString(query)}`, {
    method,
    ...(signal === undefined ? {} : { signal }),
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  if (!response.ok) throw await failureOf(response);
  return (await response.json()) as Answer;
}

async function send(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (init.signal?.aborted === true) throw error;
    throw new RequestFailure('The service does not answer: is it running?', {
      status: 0,
      code: 'connection',
      requestId: null,
    });
  }
}

async function failureOf(response: Response): Promise<RequestFailure> {
  const requestId = response.headers.get('x-request-id');
  const body = (await response.json().catch(() => null)) as Partial<ErrorBody> | null;
  const message = body?.error?.message ?? `The service answered with status ${response.status}`;
  return new RequestFailure(message, { status: response.status, code: body?.error?.code ?? 'unknown', requestId });
}

function queryString(query: NonNullable<RequestParts['query']>): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined) continue;
    for (const one of typeof value === 'object' ? value : [value]) parameters.append(name, String(one));
  }
  return parameters.size === 0 ? '' : `?${parameters}`;
}
