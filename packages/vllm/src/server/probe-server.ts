import type { HttpLine } from '../wire/http-line.ts';
import { readCompletion, UnreadableAnswer } from '../wire/completion-events.ts';
import { ServerFailure } from '../wire/server-failure.ts';
import { type ProbeFolder, readMaxLoraRank } from './probe-lora-rank.ts';
import { type ServerFacts, UnusableServer } from './server-facts.ts';

export interface ProbeOptions {
  /** Name of the base model on the server; null: its only one. */
  readonly model: string | null;
  /** Time limit of each request, ms. */
  readonly timeoutMs: number;
  /** Time limit of each request that computes, ms. */
  readonly computeMs: number;
  /** Folder for a probe adapter; null: none. */
  readonly probeFolder: ProbeFolder | null;
  readonly signal: AbortSignal;
}

/** Oldest version with `return_token_ids`, which training needs. */
const OLDEST_VERSION = [0, 10, 2] as const;
/** Default limit of log-probabilities per token. */
const USUAL_MAX_LOGPROBS = 20;
/** Above any vocabulary size. */
const BEYOND = 1_000_000_000;
/** Tokens of any vocabulary; their meaning does not matter. */
const PROBE_PROMPT = [11, 12, 13, 14];

/**
 * Reads the properties and abilities of a server.
 * @throws {UnusableServer} in one line, with the remedy
 */
export async function probeServer(line: HttpLine, options: ProbeOptions): Promise<ServerFacts> {
  try {
    const version = await readVersion(line, options);
    const served = await readModel(line, options);
    const { model } = served;
    const [fields, draws, maxLogprobs, vocabSize, loadsAdapters, schedulingPolicy] = await Promise.all([
      readFields(line, options),
      sampleGreedily(line, model, options),
      readMaxLogprobs(line, model, options),
      readVocabSize(line, model, options),
      readsAdapters(line, options),
      readPolicy(line, options),
    ]);
    const { probeFolder } = options;
    const maxLoraRank =
      loadsAdapters && probeFolder !== null ? await readMaxLoraRank(line, probeFolder, options) : null;
    const facts = { version, ...served, vocabSize, maxLogprobs, fields, loadsAdapters, schedulingPolicy };
    return { ...facts, maxLoraRank, logprobsMode: modeOf(draws, line.name) };
  } catch (error) {
    options.signal.throwIfAborted();
    throw asUnusable(error, line.name);
  }
}

/** Converts any failure to one with a remedy: the caller is a loop that no error may end. */
export function asUnusable(error: unknown, server: string): UnusableServer {
  if (error instanceof UnusableServer) return error;
  if (error instanceof UnreadableAnswer)
    return new UnusableServer(`${server} does not respond like vLLM: ${error.message}`, { cause: error });
  if (!(error instanceof ServerFailure)) {
    const words = error instanceof Error ? error.message : String(error);
    return new UnusableServer(`${server} sent an unreadable response: ${words}`, { cause: error });
  }
  return new UnusableServer(`${error.message}: ${WHAT_TO_DO[error.kind]}`, { cause: error });
}

const WHAT_TO_DO: Readonly<Record<ServerFailure['kind'], string>> = {
  unreachable: 'start vLLM there, or correct --vllm',
  untrusted:
    'it must match this address, be currently valid, and come from a certificate authority known to Node.js (add one with `NODE_EXTRA_CA_CERTS=FILE`)',
  lost: 'check its log and restart it',
  hangs: 'it may still be loading, or hang: wait until its /health responds, or restart it',
  key: 'set --vllm-key to the key that it was started with (--api-key)',
  unknown_model: 'correct the name of the model in --vllm-model',
  no_route: 'it may not be a vLLM server: correct --vllm',
  busy: 'it accepts no requests now: wait until its /health returns 200',
  refused: 'it may not be a vLLM server of a supported version',
  broken: 'check its log and restart it',
};

async function readVersion(line: HttpLine, options: ProbeOptions): Promise<string | null> {
  const text = await unlessMissing(ask(line, '/version', null, options));
  if (text === null) return null;
  const { version } = parsed(text) as { version?: unknown };
  if (typeof version !== 'string')
    throw new UnusableServer(`${line.name} does not report a vLLM version: correct --vllm`);
  const numbers = version.split(/[.+-]/).slice(0, 3).map(Number);
  // A build from source may have any version.
  const isKnown = numbers.every((number) => Number.isInteger(number));
  if (isKnown && isOlder(numbers))
    throw new UnusableServer(
      `${line.name} is vLLM ${version}, but ${OLDEST_VERSION.join('.')} is the oldest version that returns token ids: upgrade it`,
    );
  return version;
}

function isOlder(version: readonly number[]): boolean {
  const at = OLDEST_VERSION.findIndex((part, index) => (version[index] ?? 0) !== part);
  return at !== -1 && (version[at] ?? 0) < OLDEST_VERSION[at]!;
}

export async function readAdapterNames(
  line: HttpLine,
  options: Pick<ProbeOptions, 'timeoutMs' | 'signal'>,
): Promise<string[]> {
  return (await readCards(line, options)).flatMap(({ id, parent }) =>
    (parent ?? null) === null || typeof id !== 'string' ? [] : [id],
  );
}

type Card = Partial<{ id: string; root: string; parent: string; max_model_len: number }>;

async function readCards(line: HttpLine, options: Pick<ProbeOptions, 'timeoutMs' | 'signal'>): Promise<Card[]> {
  const { data } = parsed(await ask(line, '/v1/models', null, options)) as { data?: unknown };
  const cards: readonly unknown[] | null = Array.isArray(data) ? data : null;
  if (cards === null || cards.some((card) => typeof card !== 'object' || card === null))
    throw new UnreadableAnswer('its /v1/models is not a list of models');
  return cards as Card[];
}

async function readModel(
  line: HttpLine,
  options: ProbeOptions,
): Promise<Pick<ServerFacts, 'model' | 'modelRoot' | 'contextLength'>> {
  const cards = await readCards(line, options);
  const bases = cards.filter(({ id, parent }) => typeof id === 'string' && (parent ?? null) === null);
  const names = bases.map(({ id }) => id!);
  const found = options.model === null ? bases[0] : bases.find(({ id }) => id === options.model);
  if (found === undefined) {
    const what = options.model === null ? 'has no base model' : `does not serve ${options.model}`;
    throw new UnusableServer(`${line.name} ${what} (it has: ${names.join(', ') || 'none'}): correct --vllm-model`);
  }
  const { id, root, max_model_len: contextLength } = found;
  if (typeof contextLength !== 'number')
    throw new UnusableServer(
      `${line.name} does not report the maximum sequence length (max_model_len), so it may not be a vLLM server: correct --vllm`,
    );
  return { model: id!, modelRoot: typeof root === 'string' ? root : id!, contextLength };
}

/** Fields of a completion in its OpenAPI document, if that is enabled. */
async function readFields(line: HttpLine, options: ProbeOptions): Promise<ReadonlySet<string> | null> {
  const text = await unlessMissing(ask(line, '/openapi.json', null, options)).catch(() => null);
  if (text === null) return null;
  try {
    const { components } = JSON.parse(text) as { components?: { schemas?: Record<string, { properties?: object }> } };
    const properties = components?.schemas?.['CompletionRequest']?.properties;
    return properties === undefined ? null : new Set(Object.keys(properties));
  } catch {
    return null;
  }
}

interface Draw {
  readonly logprob: number;
}

/** Samples three times from one token: log-probabilities of the sampled distribution are then all 0. */
async function sampleGreedily(line: HttpLine, model: string, options: ProbeOptions): Promise<readonly Draw[]> {
  const body = { ...probeBody(model), max_tokens: 3, ignore_eos: true, temperature: 1, top_k: 1, logprobs: 1 };
  const computing = { ...options, timeoutMs: options.computeMs };
  const text = await ask(line, '/v1/completions', JSON.stringify(body), computing);
  const [choice] = readCompletion(text, { numTop: 1, ids: null, maybeLogits: true });
  return choice?.logprobs ?? [];
}

function modeOf(draws: readonly Draw[], server: string): 'raw' | 'processed' {
  if (draws.length === 0) throw new UnreadableAnswer('it returns no log-probabilities');
  if (draws.some(({ logprob }) => logprob > 1e-6))
    throw new UnusableServer(
      `${server} returns logits instead of log-probabilities: start it with --logprobs-mode raw_logprobs or processed_logprobs`,
    );
  return draws.every(({ logprob }) => logprob > -1e-6) ? 'processed' : 'raw';
}

async function readMaxLogprobs(line: HttpLine, model: string, options: ProbeOptions): Promise<number> {
  const reason = await reasonOfRefusal(line, { ...probeBody(model), logprobs: BEYOND }, options);
  const limit = /max allowed: (\d+)/.exec(reason ?? '')?.[1];
  return limit === undefined ? USUAL_MAX_LOGPROBS : Number(limit);
}

async function readVocabSize(line: HttpLine, model: string, options: ProbeOptions): Promise<number> {
  const reason = await reasonOfRefusal(line, { ...probeBody(model), logit_bias: { [BEYOND]: 1 } }, options);
  const limit = /vocab(?:ulary)?[ _]size:? ?(?:is )?(\d+)/i.exec(reason ?? '')?.[1];
  if (limit === undefined)
    throw new UnusableServer(
      `${line.name} does not report its vocabulary size, so it may not be a vLLM server of a supported version`,
    );
  return Number(limit);
}

/** Sends a request that every server refuses. @returns the server's message; null if it was accepted */
async function reasonOfRefusal(line: HttpLine, body: object, options: ProbeOptions): Promise<string | null> {
  try {
    await ask(line, '/v1/completions', JSON.stringify(body), options);
    return null;
  } catch (error) {
    if (error instanceof ServerFailure && error.kind === 'refused') return error.reason;
    throw error;
  }
}

/** True if the route exists, which depends on the server's flags. */
async function readsAdapters(line: HttpLine, options: ProbeOptions): Promise<boolean> {
  try {
    await ask(line, '/v1/load_lora_adapter', '{"lora_name":"","lora_path":""}', options);
    return true;
  } catch (error) {
    if (!(error instanceof ServerFailure)) throw error;
    if (error.kind === 'no_route') return false;
    if (error.kind === 'refused') return true;
    throw error;
  }
}

/** Scheduling policy, which servers report only in development mode. */
async function readPolicy(line: HttpLine, options: ProbeOptions): Promise<'fcfs' | 'priority' | null> {
  const text = await unlessMissing(ask(line, '/server_info?config_format=json', null, options)).catch(() => null);
  const policy = /"policy": ?"(fcfs|priority)"/.exec(text ?? '')?.[1];
  return policy === undefined ? null : (policy as 'fcfs' | 'priority');
}

function probeBody(model: string): object {
  return { model, prompt: PROBE_PROMPT, max_tokens: 1, return_token_ids: true, return_tokens_as_token_ids: true };
}

/** @param body null: GET */
function ask(
  line: HttpLine,
  path: string,
  body: string | null,
  { timeoutMs, signal }: Pick<ProbeOptions, 'timeoutMs' | 'signal'>,
): Promise<string> {
  return line.text(body === null ? 'GET' : 'POST', path, body, { timeoutMs, signal });
}

async function unlessMissing(asked: Promise<string>): Promise<string | null> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof ServerFailure && error.kind === 'no_route') return null;
    throw error;
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) ?? {};
  } catch (cause) {
    throw new UnreadableAnswer('it is not JSON', { cause });
  }
}
