import type { SampledLogprob, SampledTokens, ScoredLogprob, ScoredTokens } from '@trainyard/backend';

export type CompletionEvent =
  | { readonly kind: 'tokens'; readonly choices: readonly ChoiceTokens[] }
  | {
      readonly kind: 'usage';
      readonly promptTokens: number;
      readonly completionTokens: number;
      readonly cachedTokens: number;
    }
  | { readonly kind: 'error'; readonly message: string; readonly param: string | null; readonly status: number | null }
  | { readonly kind: 'done' };

/** New tokens of one choice, as reported by vLLM. */
export interface ChoiceTokens {
  readonly index: number;
  readonly tokenIds: readonly number[];
  readonly logprobs: SampledTokens['logprobs'];
  readonly finishReason: string | null;
  readonly stopReason: number | string | null;
}

/** An answer that no known version of vLLM gives. */
export class UnreadableAnswer extends Error {
  override readonly name = 'UnreadableAnswer';
}

/** Requested log-probabilities; null: none. */
export type LogprobsAsked = {
  /** True for a probe of a server that may list logits: accepts any number. Default false. */
  readonly maybeLogits?: boolean;
  /** Number of most likely entries; -1 = all. */
  readonly numTop: number;
  /** Lists these instead, in this order; null = the most likely. */
  readonly ids: readonly number[] | null;
} | null;

/** @throws {UnreadableAnswer} */
export function readCompletionEvent(data: string, asked: LogprobsAsked): CompletionEvent {
  if (data === '[DONE]') return { kind: 'done' };
  const event = asRecord(parse(data), 'an event');
  if (event['error'] !== undefined) return errorEvent(event['error']);
  const choices = asList(event['choices'], 'choices');
  if (choices.length > 0) return { kind: 'tokens', choices: choices.map((choice) => readChoice(choice, asked)) };
  const usage = asRecord(event['usage'], 'usage');
  const details = asRecord(usage['prompt_tokens_details'] ?? {}, 'prompt_tokens_details');
  return {
    kind: 'usage',
    promptTokens: asNumber(usage['prompt_tokens'], 'prompt_tokens'),
    completionTokens: asNumber(usage['completion_tokens'] ?? 0, 'completion_tokens'),
    cachedTokens: asNumber(details['cached_tokens'] ?? 0, 'cached_tokens'),
  };
}

/** Choices of an answer that is not streamed. @throws {UnreadableAnswer} */
export function readCompletion(text: string, asked: LogprobsAsked): readonly ChoiceTokens[] {
  const body = asRecord(parse(text), 'the answer');
  return asList(body['choices'], 'choices').map((choice) => readChoice(choice, asked));
}

/**
 * Scores of a prompt in our order: the actual token, then the most likely others.
 * @throws {UnreadableAnswer}
 */
export function readPromptScores(text: string, tokenIds: readonly number[], numTop: number): ScoredTokens {
  const body = asRecord(parse(text), 'the answer');
  const [choice] = asList(body['choices'], 'choices');
  const places = asList(asRecord(choice, 'a choice')['prompt_logprobs'], 'prompt_logprobs');
  if (places.length !== tokenIds.length)
    throw new UnreadableAnswer(
      `it has log-probabilities of ${places.length} tokens, but the prompt has ${tokenIds.length}`,
    );
  return places.map((place, at) => (at === 0 ? null : scoresOf(place, tokenIds[at]!, numTop)));
}

function scoresOf(place: unknown, id: number, numTop: number): ScoredLogprob[] {
  const all = Object.entries(asRecord(place, 'prompt_logprobs')).map(([key, value]): ScoredLogprob => {
    const { logprob, rank } = asRecord(value, 'prompt_logprobs');
    return { id: Number(key), logprob: asLogprob(logprob), rank: asNumber(rank, 'rank') };
  });
  const actual = all.find((entry) => entry.id === id);
  if (actual === undefined) throw new UnreadableAnswer(`it has no log-probability of prompt token ${id}`);
  const likeliest = all.toSorted((a, b) => a.rank - b.rank || b.logprob - a.logprob || a.id - b.id);
  const top = numTop === -1 ? likeliest : likeliest.filter((entry) => entry.rank <= numTop || entry === actual);
  const others = top.filter((entry) => entry !== actual);
  const isAmongThem = actual.rank <= numTop;
  return [actual, ...(numTop === -1 ? others : others.slice(0, isAmongThem ? numTop - 1 : numTop))];
}

function readChoice(choice: unknown, asked: LogprobsAsked): ChoiceTokens {
  const { index, token_ids: ids, logprobs, finish_reason, stop_reason } = asRecord(choice, 'a choice');
  if (ids === undefined || ids === null)
    throw new UnreadableAnswer(
      'it has no token ids: vLLM 0.10.2 or newer returns them, and a proxy in front of it must pass `return_token_ids`',
    );
  const tokenIds = asList(ids, 'token_ids').map((id) => asNumber(id, 'token_ids'));
  return {
    index: asNumber(index, 'index'),
    tokenIds,
    logprobs: asked === null ? null : readLogprobs(logprobs, tokenIds, asked),
    finishReason: typeof finish_reason === 'string' ? finish_reason : null,
    stopReason: typeof stop_reason === 'string' || typeof stop_reason === 'number' ? stop_reason : null,
  };
}

function readLogprobs(
  logprobs: unknown,
  tokenIds: readonly number[],
  { numTop, ids, maybeLogits = false }: NonNullable<LogprobsAsked>,
): NonNullable<SampledTokens['logprobs']> {
  if (tokenIds.length === 0) return [];
  const { token_logprobs, top_logprobs } = asRecord(logprobs, 'logprobs');
  const sampled = asList(token_logprobs, 'token_logprobs');
  const tops = asList(top_logprobs, 'top_logprobs');
  for (const list of [sampled, tops])
    if (list.length !== tokenIds.length)
      throw new UnreadableAnswer(`it has log-probabilities of ${list.length} tokens, but ${tokenIds.length} tokens`);
  const read = maybeLogits ? (value: unknown) => asNumber(value, 'logprobs') : asLogprob;
  return tokenIds.map((id, at) => {
    const entry = { id, logprob: read(sampled[at]) };
    const others = Object.entries(asRecord(tops[at] ?? {}, 'top_logprobs'))
      .map(([token, logprob]): SampledLogprob => ({ id: idOf(token), logprob: read(logprob) }))
      .filter((other) => other.id !== id);
    if (ids !== null) return { ...entry, top: [entry, ...inOrderOf(ids, others)] };
    return { ...entry, top: numTop === 0 ? [] : [entry, ...others].slice(0, numTop === -1 ? undefined : numTop) };
  });
}

function inOrderOf(ids: readonly number[], entries: readonly SampledLogprob[]): readonly SampledLogprob[] {
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  return [...new Set(ids)].flatMap((id) => byId.get(id) ?? []);
}

/** With `return_tokens_as_token_ids` tokens are named by their ids. */
function idOf(token: string): number {
  const id = /^token_id:(\d+)$/.exec(token)?.[1];
  if (id === undefined)
    throw new UnreadableAnswer(
      'it has token texts instead of ids: a proxy in front of vLLM must pass `return_tokens_as_token_ids`',
    );
  return Number(id);
}

function errorEvent(error: unknown): CompletionEvent {
  const { message, param, code } =
    typeof error === 'object' && error !== null ? (error as Record<string, unknown>) : {};
  return {
    kind: 'error',
    message: typeof message === 'string' ? message : 'an error without a message',
    param: typeof param === 'string' ? param : null,
    status: typeof code === 'number' ? code : null,
  };
}

/** Tolerance above a probability of 1. */
const ROUNDING = 1e-6;

/** vLLM raises -Infinity to -9999, so null is NaN, which JSON lacks. */
function asLogprob(value: unknown): number {
  if (value === null) throw new UnreadableAnswer('a log-probability is null (NaN in JSON)');
  const logprob = asNumber(value, 'logprobs');
  if (logprob > ROUNDING) throw new UnreadableAnswer(`a log-probability is ${logprob}, above 0`);
  return Math.min(Math.max(logprob, -9999), 0);
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new UnreadableAnswer('it is not JSON', { cause });
  }
}

function asRecord(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new UnreadableAnswer(`${what} is not an object`);
}

function asList(value: unknown, what: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  throw new UnreadableAnswer(`${what} is not a list`);
}

function asNumber(value: unknown, what: string): number {
  if (typeof value === 'number') return value;
  throw new UnreadableAnswer(`${what} has an item that is not a number`);
}
