import http from 'node:http';

/** A service to call. */
export interface Target {
  /** ends in `/v1` */
  readonly url: string;
  readonly apiKey: string;
}

/** Everything a client received. */
export interface StreamEnd {
  /** Null: the connection ended without an answer. */
  readonly status: number | null;
  readonly retryAfter: string | null;
  /** Tokens in the events of a stream. */
  readonly numTokens: number;
  /** End of a stream: `[DONE]`, its own error, or neither, which is a fault. `refused` for a refusal. */
  readonly end: 'done' | 'error' | 'refused' | 'cut';
  /** From the request to its end, ms. */
  readonly tookMs: number;
  /** Code of an error, in the stream or as the answer. */
  readonly code: string | null;
}

/** Sends one chat as a stream on its own connection, and reads the answer to its end. Never rejects. */
export function streamOnce(target: Target, body: object): Promise<StreamEnd> {
  const startedAt = performance.now();
  const { promise, resolve } = Promise.withResolvers<StreamEnd>();
  const settle = (end: Omit<StreamEnd, 'tookMs'>): void => resolve({ ...end, tookMs: performance.now() - startedAt });
  const request = http.request(`${target.url}/chat/completions`, {
    method: 'POST',
    agent: false,
    headers: { authorization: `Bearer ${target.apiKey}`, 'content-type': 'application/json' },
  });
  request.on('error', () => settle({ status: null, retryAfter: null, numTokens: 0, end: 'cut', code: null }));
  request.on('response', (response) => {
    const status = response.statusCode ?? null;
    const retryAfter = response.headers['retry-after'] ?? null;
    let text = '';
    response.setEncoding('utf8').on('data', (part: string) => (text += part));
    response.on('close', () => settle({ status, retryAfter, ...(status === 200 ? streamEnd(text) : refusal(text)) }));
    // The following close reports it.
    response.on('error', () => undefined);
  });
  request.end(JSON.stringify({ ...body, stream: true }));
  return promise;
}

function streamEnd(text: string): Pick<StreamEnd, 'numTokens' | 'end' | 'code'> {
  const events = text.split('\n\n').flatMap((event) => (event.startsWith('data: ') ? [event.slice(6)] : []));
  let numTokens = 0;
  let code: string | null = null;
  for (const event of events) {
    if (event === '[DONE]') continue;
    const { choices, error } = JSON.parse(event) as { choices?: { token_ids?: number[] }[]; error?: { code: string } };
    numTokens += choices?.reduce((sum, choice) => sum + (choice.token_ids?.length ?? 0), 0) ?? 0;
    code ??= error?.code ?? null;
  }
  return { numTokens, code, end: code !== null ? 'error' : events.at(-1) === '[DONE]' ? 'done' : 'cut' };
}

function refusal(text: string): Pick<StreamEnd, 'numTokens' | 'end' | 'code'> {
  try {
    const { error } = JSON.parse(text) as { error: { code: string } };
    return { numTokens: 0, end: 'refused', code: error.code };
  } catch {
    return { numTokens: 0, end: 'cut', code: null };
  }
}

/** Number of ends by kind: `200 done` → number. */
export function countEnds(ends: readonly StreamEnd[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { status, end, code } of ends) {
    const name = [status ?? 'no answer', end, code ?? []].flat().join(' ');
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}
