import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

import { EngineError, type SampledTokens, type SampleParams, type TokenBackend } from '@trainyard/backend';
import { COMPLETION_FIELDS } from './completion-fields.ts';
import { FakeRefusal, readFakeRequest } from './fake-request.ts';

export interface FakeVllmOptions {
  /** Sampler; started, and stays the caller's. */
  readonly brain: TokenBackend;
  /** Default `base`. */
  readonly model?: string;
  /** Model that it was started with. Default: its name. */
  readonly root?: string;
  /** Default 0.32.0. */
  readonly version?: string | null;
  readonly apiKey?: string | null;
  /** Default `raw`; `logits`: as set by a flag. */
  readonly logprobsMode?: 'raw' | 'processed' | 'logits';
  /** Default 20. */
  readonly maxLogprobs?: number;
  /** Default true: `--enable-lora`, with loading allowed. */
  readonly loadsAdapters?: boolean;
  /** Default true: reports the supported fields. */
  readonly hasDocument?: boolean;
  /** Default `priority`. */
  readonly policy?: 'fcfs' | 'priority';
  /** Default true: development mode, which reports its settings. */
  readonly tellsSettings?: boolean;
  /** Defaults of request fields, as of the model's `generation_config.json`. Default none. */
  readonly generationConfig?: Readonly<Record<string, unknown>>;
  /** `--max-lora-rank`, checked if it sees the configuration of an adapter. Default 16. */
  readonly maxLoraRank?: number;
  /** Default none: accepts every folder. @throws with vLLM's message for a refused one */
  readonly onLoad?: (path: string) => void;
}

/** Fault that replaces the answer to a request of a route, one per request. */
export type Fault =
  | { readonly kind: 'hang' }
  /** Closes the connection after this many events of a stream. */
  | { readonly kind: 'reset'; readonly afterEvents: number }
  /** Goes silent after this many events. */
  | { readonly kind: 'stall'; readonly afterEvents: number }
  /** Sends an error after this many events; status: default 500. */
  | { readonly kind: 'error_event'; readonly afterEvents: number; readonly message: string; readonly status?: number }
  | { readonly kind: 'answer'; readonly status: number; readonly body: string };

export interface FakeCall {
  readonly method: string;
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>> | null;
  readonly authorization: string | null;
  readonly traceParent: string | null;
}

const ROUTES_WITHOUT_KEY = ['/health', '/version', '/openapi.json', '/metrics', '/server_info'];

/**
 * vLLM's HTTP in this process, equal to release 0.32, over any back end: a real server on the loopback
 * interface. It also simulates faults.
 */
export class FakeVllm implements AsyncDisposable {
  readonly calls: FakeCall[] = [];
  /** Folders by name. */
  readonly adapters = new Map<string, string>();
  /** Fields of requests that no vLLM knows and that it would silently ignore. */
  readonly unknownFields = new Set<string>();
  /** Replaces each event of a stream that has tokens by another one, or by text written unchanged. */
  spoil: (event: Record<string, unknown>) => unknown = (event) => event;
  numRunning = 0;
  /** Start time of its process, s since 1970. */
  startedAt = 1_790_000_000;
  /** Reported share of its KV cache in use. */
  kvUse = 0.25;
  /** Number of requests whose client left. */
  numLeft = 0;
  /** Sampler; another one is another model at the same address. */
  brain: TokenBackend;
  readonly #options: FakeVllmOptions;
  readonly #faults = new Map<string, Fault[]>();
  readonly #broken = new Map<string, Fault>();
  readonly #server: Server;

  private constructor(options: FakeVllmOptions) {
    this.#options = options;
    this.brain = options.brain;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  /** @param port default: any free one */
  static async open(options: FakeVllmOptions, port = 0): Promise<FakeVllm> {
    const fake = new FakeVllm(options);
    await new Promise<void>((resolve) => fake.#server.listen(port, '127.0.0.1', resolve));
    return fake;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Closes it like a killed process. */
  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Sets faults of the next requests to this path. */
  failNext(path: string, ...faults: Fault[]): void {
    this.#faults.set(path, [...(this.#faults.get(path) ?? []), ...faults]);
  }

  /** Sets a fault of all requests to this path, until null; those of {@link failNext} come first. */
  breakPath(path: string, fault: Fault | null): void {
    if (fault === null) this.#broken.delete(path);
    else this.#broken.set(path, fault);
  }

  callsOf(path: string): readonly FakeCall[] {
    return this.calls.filter((call) => call.path === path);
  }

  /** Requested samples, without probes. */
  get samples(): readonly FakeCall[] {
    return this.callsOf('/v1/completions').filter(({ body }) => body?.['cache_salt'] !== undefined);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '' } = request;
    const [path = ''] = url.split('?');
    const text = await textOf(request);
    const body = text === '' ? null : (JSON.parse(text) as Record<string, unknown>);
    const { authorization = null, traceparent } = request.headers;
    this.calls.push({
      method,
      path,
      body,
      authorization,
      traceParent: traceparent === undefined ? null : String(traceparent),
    });
    const { apiKey = null } = this.#options;
    const fault = this.#faults.get(path)?.shift() ?? this.#broken.get(path) ?? null;
    try {
      if (fault?.kind === 'hang') return;
      if (fault?.kind === 'answer') answerText(response, fault.status, fault.body);
      else if (fault?.kind === 'reset' && fault.afterEvents === 0) request.socket.destroy();
      else if (apiKey !== null && !ROUTES_WITHOUT_KEY.includes(path) && authorization !== `Bearer ${apiKey}`)
        answerText(response, 401, '{"error":"Unauthorized"}');
      else await this.#route(`${method} ${path}`, body ?? {}, response, fault);
    } catch (error) {
      answerText(response, ...asAnswer(error));
    }
  }

  async #route(
    route: string,
    body: Readonly<Record<string, unknown>>,
    response: ServerResponse,
    fault: Fault | null,
  ): Promise<void> {
    const { version = '0.32.0', hasDocument = true, tellsSettings = true, policy = 'priority' } = this.#options;
    const { loadsAdapters = true } = this.#options;
    if (route === 'GET /health') answerText(response, 200, '');
    else if (route === 'GET /metrics')
      answerText(
        response,
        200,
        `vllm:kv_cache_usage_perc{engine="0",model_name="base"} ${this.kvUse}\nprocess_start_time_seconds ${this.startedAt}\n`,
      );
    else if (route === 'GET /version' && version !== null) answerJson(response, { version });
    else if (route === 'GET /v1/models') answerJson(response, this.#models());
    else if (route === 'GET /openapi.json' && hasDocument) answerJson(response, openApi());
    else if (route === 'GET /server_info' && tellsSettings)
      answerJson(response, { vllm_config: { scheduler_config: { policy } } });
    else if (route === 'POST /v1/load_lora_adapter' && loadsAdapters) await this.#load(body, response);
    else if (route === 'POST /v1/unload_lora_adapter' && loadsAdapters) await this.#unload(body, response);
    else if (route === 'POST /v1/completions') await this.#complete(body, response, fault);
    else throw new FakeRefusal(404, 'Not Found', 'Not Found', null);
  }

  #models(): object {
    const { model = 'base' } = this.#options;
    const { brain } = this;
    const card = { object: 'model', created: 1_790_000_000, owned_by: 'vllm' };
    const { contextLength } = brain.models[0]!;
    const base = { id: model, ...card, root: this.#options.root ?? model, parent: null, max_model_len: contextLength };
    const adapters = [...this.adapters].map(([id, root]) => ({
      id,
      ...card,
      root,
      parent: model,
      max_model_len: null,
    }));
    return { object: 'list', data: [base, ...adapters] };
  }

  async #load(body: Readonly<Record<string, unknown>>, response: ServerResponse): Promise<void> {
    const { lora_name: name, lora_path: path } = body as { lora_name: string; lora_path: string };
    if (!name || !path)
      throw new FakeRefusal(400, 'InvalidUserInput', "Both 'lora_name' and 'lora_path' must be provided.", null);
    if (this.adapters.has(name)) {
      const words = `The lora adapter '${name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True.`;
      throw new FakeRefusal(400, 'InvalidUserInput', words, null);
    }
    this.#options.onLoad?.(path);
    const rank = rankOf(path);
    const { maxLoraRank = 16 } = this.#options;
    if (rank > maxLoraRank)
      throw new FakeRefusal(
        500,
        'InternalServerError',
        `LoRA rank ${rank} is greater than max_lora_rank ${maxLoraRank}.`,
        null,
      );
    await this.brain.publish({ digest: name, directory: path });
    this.adapters.set(name, path);
    answerText(response, 200, `Success: LoRA adapter '${name}' added successfully.`);
  }

  async #unload(body: Readonly<Record<string, unknown>>, response: ServerResponse): Promise<void> {
    const { lora_name: name } = body as { lora_name: string };
    if (!this.adapters.delete(name))
      throw new FakeRefusal(404, 'NotFoundError', `The lora adapter '${name}' cannot be found.`, null);
    await this.brain.retire(name);
    answerText(response, 200, `Success: LoRA adapter '${name}' removed successfully.`);
  }

  async #complete(
    body: Readonly<Record<string, unknown>>,
    response: ServerResponse,
    fault: Fault | null,
  ): Promise<void> {
    for (const field of Object.keys(body)) if (!COMPLETION_FIELDS.has(field)) this.unknownFields.add(field);
    const { brain } = this;
    const { model: base = 'base', maxLogprobs = 20, logprobsMode = 'raw', policy = 'priority' } = this.#options;
    const model = body['model'] as string;
    if (model !== base && !this.adapters.has(model))
      throw new FakeRefusal(404, 'NotFoundError', `The model \`${model}\` does not exist.`, 'model');
    const asked = { ...this.#options.generationConfig, ...body };
    const { tokenIds, params, isStreamed } = readFakeRequest(asked, { brain, maxLogprobs, logprobsMode, policy });
    const left = new AbortController();
    response.once('close', () => {
      if (!response.writableEnded) this.numLeft++;
      left.abort();
    });
    this.numRunning++;
    try {
      const run: Run = { body, tokenIds, params: { ...params, adapter: model === base ? null : model }, response };
      if (isStreamed) await this.#stream(run, left.signal, fault);
      else await this.#whole(run, left.signal);
    } finally {
      this.numRunning--;
    }
  }

  async #stream({ body, tokenIds, params, response }: Run, signal: AbortSignal, fault: Fault | null): Promise<void> {
    const sampled = this.brain.sample(tokenIds, params, signal);
    // A refusal has its own status, so the first output is awaited before the head is sent.
    let next = await sampled.next();
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    let numEvents = 0;
    try {
      for (; !next.done; next = await sampled.next()) {
        if (next.value.kind !== 'tokens') continue;
        if (fault !== null && 'afterEvents' in fault && numEvents === fault.afterEvents)
          return this.#break(fault, response);
        const choices = [this.#choice(next.value, params, numEvents === 0 ? tokenIds : null)];
        writeEvent(response, this.spoil({ ...envelope(body), choices }));
        numEvents++;
      }
      const { promptTokens, completionTokens, cachedTokens } = next.value;
      const usage = {
        prompt_tokens: promptTokens,
        completion_tokens: completionTokens,
        total_tokens: promptTokens + completionTokens,
        prompt_tokens_details: { cached_tokens: cachedTokens },
      };
      const { include_usage: isAsked } = (body['stream_options'] ?? {}) as { include_usage?: boolean };
      if (isAsked === true) writeEvent(response, { ...envelope(body), choices: [], usage });
    } catch (error) {
      if (signal.aborted) return;
      const [, text] = asAnswer(error);
      response.write(`data: ${text}\n\n`);
    }
    response.end('data: [DONE]\n\n');
  }

  #break(fault: Fault, response: ServerResponse): void {
    if (fault.kind === 'reset') response.socket?.destroy();
    if (fault.kind !== 'error_event') return;
    const [, text] = asAnswer(new FakeRefusal(fault.status ?? 500, 'InternalServerError', fault.message, null));
    response.end(`data: ${text}\n\ndata: [DONE]\n\n`);
  }

  async #whole({ body, tokenIds, params, response }: Run, signal: AbortSignal): Promise<void> {
    const sampled = this.brain.sample(tokenIds, params, signal);
    const steps: SampledTokens[] = [];
    let next = await sampled.next();
    for (; !next.done; next = await sampled.next()) if (next.value.kind === 'tokens') steps.push(next.value);
    const choices = Array.from({ length: params.n }, (_, index) => {
      const own = steps.filter((step) => step.index === index);
      const logprobs = own[0]?.logprobs == null ? null : own.flatMap((step) => step.logprobs ?? []);
      const all = { ...own.at(-1)!, tokenIds: own.flatMap((step) => step.tokenIds), logprobs };
      const scores = next.done === true ? next.value.promptLogprobs : undefined;
      const places = scores?.map((entries) => {
        const asTold = (entry: { logprob: number; rank: number }) => ({ ...entry, id: undefined, decoded_token: '' });
        return entries && Object.fromEntries(entries.map((entry) => [entry.id, asTold(entry)]));
      });
      return { ...this.#choice(all, params, tokenIds), prompt_logprobs: places ?? null };
    });
    answerJson(response, { ...envelope(body), choices, usage: { prompt_tokens: tokenIds.length } });
  }

  #choice(
    { index, tokenIds, logprobs, finish }: SampledTokens,
    params: SampleParams,
    promptIds: readonly number[] | null,
  ) {
    const { logprobsMode = 'raw' } = this.#options;
    // Logits can be any numbers. Tokens that are never sampled have -9999.
    const reported = (logprob: number): number => Math.max(logprobsMode === 'logits' ? logprob + 20 : logprob, -9999);
    const nameOf = (id: number): string => `token_id:${id}`;
    const isEndOfText = finish?.stopReason === null || finish === null;
    return {
      index,
      text: '',
      logprobs:
        logprobs === null || params.logprobs === null
          ? null
          : {
              text_offset: tokenIds.map(() => 0),
              token_logprobs: logprobs.map((entry) => reported(entry.logprob)),
              tokens: tokenIds.map(nameOf),
              top_logprobs: logprobs.map((entry) =>
                Object.fromEntries([entry, ...entry.top].map(({ id, logprob }) => [nameOf(id), reported(logprob)])),
              ),
            },
      finish_reason: finish?.reason ?? null,
      stop_reason: isEndOfText ? null : finish.stopReason,
      token_ids: tokenIds,
      ...(promptIds === null ? {} : { prompt_token_ids: promptIds }),
    };
  }
}

/** Returns 0 if it sees no configuration. */
function rankOf(path: string): number {
  try {
    return (JSON.parse(readFileSync(join(path, 'adapter_config.json'), 'utf8')) as { r: number }).r;
  } catch {
    return 0;
  }
}

interface Run {
  readonly body: Readonly<Record<string, unknown>>;
  readonly tokenIds: readonly number[];
  readonly params: SampleParams;
  readonly response: ServerResponse;
}

function envelope(body: Readonly<Record<string, unknown>>): object {
  return { id: 'cmpl-fake', object: 'text_completion', created: 1_790_000_000, model: body['model'] };
}

function openApi(): object {
  const properties = Object.fromEntries([...COMPLETION_FIELDS].map((field) => [field, {}]));
  return { openapi: '3.1.0', components: { schemas: { CompletionRequest: { type: 'object', properties } } } };
}

/** Error in the form of vLLM's handlers. */
function asAnswer(error: unknown): [status: number, body: string] {
  const { status, type, param } = error instanceof FakeRefusal ? error : statusOf(error);
  const { message } = error as Error;
  return [status, JSON.stringify({ error: { message, type, param, code: status } })];
}

function statusOf(error: unknown): { status: number; type: string; param: string | null } {
  const isRefusal = error instanceof EngineError && error.code === 'engine.invalid_request';
  return isRefusal
    ? { status: 400, type: 'BadRequestError', param: error.param }
    : { status: 500, type: 'InternalServerError', param: null };
}

function answerJson(response: ServerResponse, body: object): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function answerText(response: ServerResponse, status: number, body: string): void {
  if (response.headersSent) response.destroy();
  else response.writeHead(status, { 'content-type': 'application/json' }).end(body);
}

function writeEvent(response: ServerResponse, event: unknown): void {
  response.write(`data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`);
}

async function textOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of request as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}
