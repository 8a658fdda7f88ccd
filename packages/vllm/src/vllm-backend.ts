import { join } from 'node:path';

import {
  type AdapterVersion,
  type BackendHealth,
  type BackendModel,
  checkFeatures,
  checkPromptIds,
  DEFAULT_SAMPLE,
  type EndTokens,
  EngineError,
  type Finish,
  type FixedScores,
  refusal,
  type SampledTokens,
  type SampleFeature,
  type SampleOutput,
  type SampleParams,
  type SampleTotals,
  type ScoredTokens,
  type ScoreParams,
  type TokenBackend,
  type TokenBackendCapabilities,
  validateSampleRequest,
} from '@trainyard/backend';
import { DrawReader, numListed, type DrawContext } from './draws/draw-reader.ts';
import { AdapterFolders } from './adapter-folders.ts';
import { memberOf, ServerPool } from './pool/server-pool.ts';
import { poolKey } from './pool/pool-key.ts';
import {
  compareFingerprints,
  type Fingerprint,
  fingerprintPrompts,
  likeliest,
  numListedTokens,
} from './pool/fingerprint.ts';
import { compareScores, requireVocabulary } from './pool/reference-scores.ts';
import { type ServerFacts, UnusableServer } from './server/server-facts.ts';
import { SERVER_TIMES, type ServerTimes, VllmServer } from './server/vllm-server.ts';
import { type CompletionBounds, CompletionCheck } from './wire/completion-check.ts';
import {
  type ChoiceTokens,
  type CompletionEvent,
  type LogprobsAsked,
  readCompletion,
  readCompletionEvent,
  readPromptScores,
  UnreadableAnswer,
} from './wire/completion-events.ts';
import {
  checkLogprobs,
  logprobFields,
  PLAIN_SAMPLING,
  REQUEST_FIELDS,
  requestFields,
  saltOf,
} from './wire/request-fields.ts';
import { readServerAddress } from './wire/server-address.ts';
import { failureOfEvent, ServerFailure } from './wire/server-failure.ts';
import { CONSTRAINT_KINDS } from './wire/structured-outputs.ts';

export interface VllmBackendOptions {
  /** `http://host:port` of at least one server; all have the same model. */
  readonly urls: readonly string[];
  /** Name of the base model in this service. */
  readonly modelId: string;
  readonly ends: EndTokens;
  /** API key of the servers, `--api-key`. Default null: none. */
  readonly apiKey?: string | null;
  /** Name of the base model on the servers. Default null: their only one. */
  readonly model?: string | null;
  /** See {@link AdapterFolders}. Default null. */
  readonly adapterDirectory?: string | null;
  /** Default null. */
  readonly adapterPath?: string | null;
  /** Adapters per server, its `--max-cpu-loras`. Default 16. */
  readonly maxAdapters?: number;
  /** Largest rank of an adapter, their `--max-lora-rank`. Default null: probes each server. */
  readonly maxLoraRank?: number | null;
  /**
   * Folder for that probe, and for adapters that vLLM needs in another form, at the same path on the servers, if
   * there is no `adapterDirectory`. Default null: neither without one.
   */
  readonly probeDirectory?: string | null;
  /** Flag of the servers, `--scheduling-policy`. Default `fcfs`. */
  readonly schedulingPolicy?: 'fcfs' | 'priority';
  readonly maxRequests: number;
  /** Maximum choices of one request. Default 128. */
  readonly maxChoices?: number;
  /** Expected scores of some tokens. Default null: not checked. */
  readonly reference?: FixedScores | null;
  /** Read at each use. Default: {@link SERVER_TIMES}. */
  readonly times?: ServerTimes;
  readonly log: (line: string) => void;
}

const DEFAULT_MAX_ADAPTERS = 16;
const DEFAULT_MAX_CHOICES = 128;

/** Features that are fields of a completion: servers silently ignore fields that they do not know. */
const FIELD_OF_FEATURE: Readonly<Partial<Record<SampleFeature, string>>> = {
  allowedTokenIds: 'allowed_token_ids',
  promptLogprobs: 'prompt_logprobs',
  repetitionDetection: 'repetition_detection',
  seeds: 'seed',
};

/**
 * vLLM servers as one back end: sends and receives token ids through `/v1/completions`. Text, templates and
 * stop strings stay here.
 */
export class VllmBackend implements TokenBackend {
  readonly specVersion = 1;
  readonly #options: VllmBackendOptions;
  readonly #pool: ServerPool;
  readonly #folders: AdapterFolders;
  readonly #closing = new AbortController();
  /** Facts of the first server; all others must match. */
  #facts: ServerFacts | null = null;
  /** Fingerprint of the first server; all others, and it itself later, must match. */
  #fingerprint: Fingerprint | null = null;

  /** @throws {UnusableServer} for an invalid URL */
  constructor(options: VllmBackendOptions) {
    const {
      urls,
      apiKey = null,
      model = null,
      maxAdapters = DEFAULT_MAX_ADAPTERS,
      times = SERVER_TIMES,
      log,
    } = options;
    const { adapterDirectory = null, adapterPath = null, probeDirectory = null, maxLoraRank = null } = options;
    const probed = maxLoraRank === null ? (adapterDirectory ?? probeDirectory) : null;
    const probeFolder =
      probed === null
        ? null
        : { directory: probed, path: adapterDirectory === null ? probed : (adapterPath ?? probed) };
    this.#options = options;
    this.#folders = new AdapterFolders({
      directory: adapterDirectory,
      path: adapterPath,
      formDirectory: probeDirectory === null ? null : join(probeDirectory, 'vllm-adapters'),
      baseModel: () => this.#facts?.modelRoot ?? null,
    });
    const servers = urls.map((url) => {
      const address = readServerAddress(url);
      if (address === null)
        throw new UnusableServer(`${JSON.stringify(url)} is not the URL of a server: set --vllm to http://HOST:PORT`);
      const pathOf = (digest: string): string => this.#folders.pathOf(digest);
      const check = (server: VllmServer, facts: ServerFacts): Promise<void> => this.#check(server, facts);
      const compare = (server: VllmServer, facts: ServerFacts): Promise<void> => this.#compare(server, facts);
      return new VllmServer({ address, apiKey, model, maxAdapters, times, probeFolder, pathOf, check, compare, log });
    });
    this.#pool = new ServerPool(servers);
  }

  get models(): readonly BackendModel[] {
    const { contextLength, vocabSize } = this.#known();
    return [{ id: this.#options.modelId, contextLength, vocabSize, maxLoraRank: this.#maxLoraRank }];
  }

  /** Smallest limit of all servers, because an adapter is loaded on each. */
  get #maxLoraRank(): number | null {
    const { maxLoraRank = null } = this.#options;
    const found = this.#pool.servers.flatMap(({ facts }) => facts?.maxLoraRank ?? []);
    return maxLoraRank ?? (found.length === 0 ? null : Math.min(...found));
  }

  get capabilities(): TokenBackendCapabilities {
    const { maxRequests, maxChoices = DEFAULT_MAX_CHOICES } = this.#options;
    const { fields, loadsAdapters, logprobsMode } = this.#known();
    const features = new Set<SampleFeature>();
    for (const [feature, field] of Object.entries(FIELD_OF_FEATURE))
      if (fields === null || fields.has(field)) features.add(feature as SampleFeature);
    if (fields?.has('logprob_token_ids') === true) features.add('logprobTokenIds');
    features.add('tracesSampling');
    if (loadsAdapters) features.add('adapters');
    if (logprobsMode === 'processed') features.add('processedLogprobs');
    if (this.#policy === 'priority') features.add('priorities');
    const enforces = fields === null || fields.has('structured_outputs');
    return {
      features,
      asksText: false,
      constraints: new Set(enforces ? CONSTRAINT_KINDS : []),
      maxRequests,
      maxChoices,
      reasons: REASONS,
    };
  }

  /** @throws {UnusableServer} if none of the servers is usable; one is enough, and the others are retried */
  async start(): Promise<void> {
    await this.#pool.start();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#pool.close();
  }

  async publish(adapter: AdapterVersion): Promise<string | null> {
    const isNew = !this.#folders.has(adapter.digest);
    await this.#folders.add(adapter);
    try {
      return await this.#pool.load(adapter.digest);
    } catch (error) {
      // A published one may be in use.
      if (isNew) await this.retire(adapter.digest);
      throw asEngineFailure(error);
    }
  }

  async retire(digest: string): Promise<void> {
    await this.#pool.unload(digest);
    await this.#folders.remove(digest);
  }

  async *sample(
    tokenIds: readonly number[],
    params: SampleParams,
    signal: AbortSignal,
  ): AsyncGenerator<SampleOutput, SampleTotals, undefined> {
    const ended = AbortSignal.any([signal, this.#closing.signal]);
    const fields = this.#fieldsOf(tokenIds, params);
    const { promptLogprobs, promptLogprobsFirst, logprobTokenIds: ids } = params;
    const numAsked = numListed(params, this.#drawContext) ?? params.logprobs;
    const asked = numAsked === null ? null : { numTop: ids === null ? -1 : numAsked, ids };
    const draws = new Map<number, DrawReader | null>();
    try {
      const scores =
        promptLogprobs === null ? null : await this.#score(tokenIds, { ...params, numTop: promptLogprobs }, ended);
      const stream = { stream: true, stream_options: { include_usage: true } };
      const { vocabSize } = this.#known();
      const bounds = { numChoices: params.n, maxTokens: Number(fields['max_tokens']), vocabSize };
      const events = this.#pool.run(
        poolKey(tokenIds, params),
        { ...params, numChoices: params.n },
        ended,
        (server, model, life) =>
          streamed(
            server,
            { ...requestTo(model, tokenIds), ...stream, ...fields },
            { asked, bounds, traceParent: params.traceParent },
            life,
          ),
      );
      let completionTokens = 0;
      let cachedTokens = 0;
      let hasStarted = false;
      const open = new Set(Array.from({ length: params.n }, (_, index) => index));
      for await (const event of events) {
        if (!hasStarted) {
          yield { kind: 'started', cachedTokens: 0 };
          if (scores !== null && promptLogprobsFirst) yield { kind: 'prompt_scored', promptLogprobs: scores };
        }
        hasStarted = true;
        // A scored prompt was computed for that.
        if (event.kind === 'usage' && scores === null) cachedTokens = event.cachedTokens;
        if (event.kind !== 'tokens') continue;
        for (const choice of event.choices.filter(({ index }) => open.has(index))) {
          if (!draws.has(choice.index)) draws.set(choice.index, DrawReader.open(params, this.#drawContext));
          const step = this.#stepOf(choice, params, draws.get(choice.index) ?? null);
          completionTokens += step.tokenIds.length;
          if (step.finish !== null) open.delete(choice.index);
          yield step;
        }
      }
      const totals = { promptTokens: tokenIds.length, completionTokens, cachedTokens };
      return scores === null || promptLogprobsFirst ? totals : { ...totals, promptLogprobs: scores };
    } catch (error) {
      throw ended.aborted ? aborted() : asEngineFailure(error);
    }
  }

  async score(tokenIds: readonly number[], params: ScoreParams, signal: AbortSignal): Promise<ScoredTokens> {
    const { vocabSize, contextLength } = this.#known();
    checkPromptIds({ ...DEFAULT_SAMPLE, promptLogprobs: params.numTop }, tokenIds, vocabSize, contextLength);
    const ended = AbortSignal.any([signal, this.#closing.signal]);
    try {
      return await this.#score(tokenIds, params, ended);
    } catch (error) {
      throw ended.aborted ? aborted() : asEngineFailure(error);
    }
  }

  async health(): Promise<BackendHealth> {
    const problem = this.#closing.signal.aborted ? 'it is closed' : this.#pool.problem;
    return { problem, stats: null, members: this.#pool.servers.map(memberOf) };
  }

  get #policy(): 'fcfs' | 'priority' {
    return this.#options.schedulingPolicy ?? 'fcfs';
  }

  #known(): ServerFacts {
    if (this.#facts === null) throw new Error('the back end has not started yet');
    return this.#facts;
  }

  /** @throws {EngineError} */
  #fieldsOf(tokenIds: readonly number[], params: SampleParams): Record<string, unknown> {
    const { vocabSize, contextLength, logprobsMode, maxLogprobs } = this.#known();
    const { maxChoices = DEFAULT_MAX_CHOICES } = this.#options;
    const request = { ...params, adapter: null, requestId: '' };
    validateSampleRequest(request, { vocabSize, policy: this.#policy, maxChoices });
    checkPromptIds(request, tokenIds, vocabSize, contextLength);
    checkFeatures(params, this.capabilities);
    const numPromptTokens = tokenIds.length;
    const { ends } = this.#options;
    const context = { contextLength, numPromptTokens, ends, logprobsMode, maxLogprobs, vocabSize };
    const fields = requestFields(params, context);
    const numLogprobs = numListed(params, context);
    return numLogprobs === null ? fields : { ...fields, ...logprobFields(numLogprobs) };
  }

  get #drawContext(): DrawContext {
    const { vocabSize, logprobsMode, maxLogprobs } = this.#known();
    return { vocabSize, logprobsMode, maxLogprobs, ends: this.#options.ends };
  }

  async #score(tokenIds: readonly number[], params: ScoreParams, signal: AbortSignal): Promise<ScoredTokens> {
    const { numTop } = params;
    const known = this.#known();
    checkLogprobs('promptLogprobs', numTop, known);
    const key = poolKey(tokenIds, params);
    const scores = this.#pool.run(key, { ...params, numChoices: 1 }, signal, (server, model, life) =>
      scored(server, scoreRequest(model, tokenIds, params), { tokenIds, numTop }, life),
    );
    for await (const all of scores) return all;
    throw new ServerFailure('broken', 'the server returned no scores');
  }

  /** Checks a server that came up. @throws {UnusableServer} */
  async #check(server: VllmServer, facts: ServerFacts): Promise<void> {
    const { reference = null } = this.#options;
    const { name } = server;
    const { schedulingPolicy: reported } = facts;
    if (reported !== null && reported !== this.#policy)
      throw new UnusableServer(
        `${name} schedules by ${reported}, but --vllm-scheduling-policy is ${this.#policy}: set it to ${reported}`,
      );
    this.#facts ??= facts;
    const difference = differenceOf(this.#facts, facts);
    if (difference !== null)
      throw new UnusableServer(
        `${name} differs from the other servers of the pool (${difference}): start all of them with the same flags`,
      );
    if (reference !== null) requireVocabulary(reference, facts.vocabSize, name);
  }

  /**
   * Compares the weights of a server with the file, and with the pool. @throws {UnusableServer};
   * {ServerFailure}
   */
  async #compare(server: VllmServer, facts: ServerFacts): Promise<void> {
    const { reference = null } = this.#options;
    // Next to requests it scores nothing: see `fingerprintPrompts`.
    if (reference !== null && server.isNewProcess) await this.#compareWithFile(server, facts, reference);
    const found = await fingerprintOf(server, facts);
    if (found === null) return;
    this.#fingerprint ??= found;
    compareFingerprints(this.#fingerprint, found, server.name);
  }

  async #compareWithFile(server: VllmServer, facts: ServerFacts, reference: FixedScores): Promise<void> {
    const { log } = this.#options;
    const { tokenIds } = reference;
    const request = { ...requestTo(facts.model, tokenIds), ...ONE_TOKEN, prompt_logprobs: 0 };
    const limits = { timeoutMs: server.times.computeMs, signal: server.life };
    const text = await server.line.text('POST', '/v1/completions', JSON.stringify(request), limits);
    const read = readable(server, () => readPromptScores(text, tokenIds, 0));
    const logprobs = read.map((entries) => entries?.[0]?.logprob ?? null);
    const line = compareScores(reference, logprobs, server.name);
    if (line !== null) log(`vLLM: ${line}`);
  }

  #stepOf(
    { index, tokenIds, logprobs, finishReason, stopReason }: ChoiceTokens,
    params: SampleParams,
    reader: DrawReader | null,
  ): SampledTokens {
    const finish = finishReason === null ? null : this.#finishOf(finishReason, stopReason, tokenIds.at(-1), params);
    const draws =
      reader && logprobs?.map((entry) => reader.read([entry, ...entry.top.filter(({ id }) => id !== entry.id)]));
    const reported = { kind: 'tokens', index, tokenIds, logprobs: asAsked(logprobs, params), finish } as const;
    return draws == null ? reported : { ...reported, draws };
  }

  /**
   * Derives the end of a choice from its last token, because the server's end tokens differ slightly from
   * ours.
   */
  #finishOf(
    reason: string,
    stopReason: number | string | null,
    last: number | undefined,
    params: SampleParams,
  ): Finish {
    if (reason === 'length') return { reason, stopReason: null };
    if (reason === 'repetition') return { reason, stopReason: 'repetition_detected' };
    // Some servers abort running requests when they are paused or put to sleep; the reply has not ended.
    if (reason !== 'stop') throw new ServerFailure('lost', `a server gave up a choice (${reason})`);
    const id = last ?? stopReason;
    const isStopId = typeof id === 'number' && params.stopTokenIds.includes(id);
    const isEnd = id === this.#options.ends.eosTokenId && (!params.ignoreEos || !isStopId);
    return { reason, stopReason: isEnd || typeof id !== 'number' ? null : id };
  }
}

/** Reasons for missing features that do not depend on flags of the servers. */
const REASONS: Readonly<Partial<Record<SampleFeature, string>>> = {
  adapters:
    'the vLLM servers do not load adapters: start them with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True',
  bannedSequences: whyRefused('bannedSequences'),
  beamSearch: whyRefused('beamSearch'),
  logits: 'the vLLM servers return log-probabilities, which training needs',
  logprobTokenIds: 'the vLLM servers do not know the field',
  priorities: 'the vLLM servers run requests in order of arrival (--vllm-scheduling-policy)',
  processedLogprobs: 'the vLLM servers return raw ones: start them with --logprobs-mode processed_logprobs',
};

function whyRefused(name: 'bannedSequences' | 'beamSearch'): string {
  const mapping = REQUEST_FIELDS[name];
  return mapping.kind === 'refused' ? mapping.why : '';
}

/** Cuts lists that are longer than the client requested. */
function asAsked(
  logprobs: SampledTokens['logprobs'],
  { logprobs: numTop, logprobTokenIds: ids }: SampleParams,
): SampledTokens['logprobs'] {
  if (numTop === null) return null;
  if (ids !== null || numTop === -1) return logprobs;
  return logprobs && logprobs.map((entry) => ({ ...entry, top: entry.top.slice(0, numTop) }));
}

function requestTo(model: string, tokenIds: readonly number[]): object {
  return { model, prompt: tokenIds, add_special_tokens: false, return_token_ids: true };
}

/** Samples one token, because vLLM cannot sample none. */
const ONE_TOKEN = { max_tokens: 1, temperature: 0, n: 1, ignore_eos: true };

function scoreRequest(model: string, tokenIds: readonly number[], params: ScoreParams): object {
  const { numTop, priority } = params;
  const most = priority === 0 ? {} : { priority };
  const sampled = { ...ONE_TOKEN, cache_salt: saltOf(params), ...most };
  return { ...requestTo(model, tokenIds), ...sampled, prompt_logprobs: numTop };
}

async function* streamed(
  server: VllmServer,
  body: object,
  { asked, bounds, traceParent }: { asked: LogprobsAsked; bounds: CompletionBounds; traceParent: string | null },
  life: AbortSignal,
): AsyncGenerator<CompletionEvent, void, undefined> {
  const headers: Record<string, string> = traceParent === null ? {} : { traceparent: traceParent };
  const answer = new CompletionCheck(bounds);
  let hasBegun = false;
  for await (const data of server.line.events('/v1/completions', JSON.stringify(body), life, headers)) {
    const event = readable(server, () => readCompletionEvent(data, asked));
    if (event.kind === 'done') continue;
    if (event.kind === 'error') {
      // Older releases use status 400 for a dead engine, too.
      server.checkHealth();
      throw failureOfEvent(server.name, event, hasBegun);
    }
    if (event.kind === 'tokens') {
      hasBegun = true;
      for (const choice of event.choices) {
        readable(server, () => answer.read(choice));
        server.counts.tokens += choice.tokenIds.length;
      }
    }
    yield event;
  }
  if (!answer.isComplete) throw new ServerFailure('lost', `${server.name} ended a stream before its choices ended`);
}

/** Returns null if the server lists too few tokens. @throws {ServerFailure} */
async function fingerprintOf(
  server: VllmServer,
  { model, vocabSize, maxLogprobs }: ServerFacts,
): Promise<Fingerprint | null> {
  const numListed = numListedTokens(maxLogprobs);
  if (numListed === null) return null;
  const limits = { timeoutMs: server.times.computeMs, signal: server.life };
  const lists: ReadonlyMap<number, number>[] = [];
  for (const prompt of fingerprintPrompts(vocabSize)) {
    // With plain sampling both modes of log-probabilities are those of the model.
    const request = { ...requestTo(model, prompt), ...ONE_TOKEN, ...PLAIN_SAMPLING, ...logprobFields(numListed) };
    const text = await server.line.text('POST', '/v1/completions', JSON.stringify(request), limits);
    const [choice] = readable(server, () => readCompletion(text, { numTop: -1, ids: null }));
    const [entry] = choice?.logprobs ?? [];
    if (entry === undefined) throw new ServerFailure('broken', `${server.name} reports no log-probabilities`);
    lists.push(likeliest(entry, numListed));
  }
  return lists;
}

/**
 * Converts an answer that no vLLM gives to a failure of the server, so that it is counted and never passed
 * on.
 */
function readable<Value>(server: VllmServer, read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof UnreadableAnswer)) throw error;
    throw new ServerFailure('broken', `${server.name} does not respond like vLLM: ${error.message}`, {
      cause: error,
    });
  }
}

async function* scored(
  server: VllmServer,
  body: object,
  { tokenIds, numTop }: { readonly tokenIds: readonly number[]; readonly numTop: number },
  life: AbortSignal,
): AsyncGenerator<ScoredTokens, void, undefined> {
  const text = await server.line.text('POST', '/v1/completions', JSON.stringify(body), {
    timeoutMs: null,
    signal: life,
  });
  yield readable(server, () => readPromptScores(text, tokenIds, numTop));
}

/** First difference between servers that affects requests; null if there is none. */
function differenceOf(first: ServerFacts, other: ServerFacts): string | null {
  for (const name of ['vocabSize', 'contextLength', 'logprobsMode', 'maxLogprobs', 'loadsAdapters'] as const)
    if (first[name] !== other[name]) return `${name} ${other[name]}, not ${first[name]}`;
  return null;
}

function aborted(): EngineError {
  return new EngineError('engine.aborted', 'the request was aborted');
}

/** Converts a failure for clients: without an address. */
function asEngineFailure(error: unknown): unknown {
  if (!(error instanceof ServerFailure)) return error;
  const { kind, reason, param } = error;
  if (kind === 'busy')
    return new EngineError('engine.overloaded', 'the vLLM servers accept no more requests now; retry', {
      cause: error,
    });
  if (kind === 'refused') {
    if (/maximum (?:context|model) length/i.test(reason))
      return new EngineError('context_length_exceeded', reason, { param: 'prompt', cause: error });
    return refusal(paramOf(param) ?? 'prompt', `the vLLM server refused the request: ${reason}`, { cause: error });
  }
  if (kind === 'broken')
    return new EngineError('engine.internal', 'the vLLM server failed; see its log', { cause: error });
  return new EngineError('engine.host_lost', 'the vLLM server of this request was lost; retry', {
    cause: error,
  });
}

/** Parameter that a field of vLLM is made from. */
function paramOf(field: string | null): string | null {
  const found = Object.entries(REQUEST_FIELDS).find(
    ([, mapping]) => mapping.kind === 'sent' && mapping.as.includes(field ?? ''),
  );
  return found?.[0] ?? null;
}
