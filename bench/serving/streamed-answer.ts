import type OpenAI from 'openai';

import type { ServerUnderTest } from './server-under-test.ts';

/** A chat to sample up to its last token: no reply ends early. */
export interface ChatWork {
  readonly model: string;
  readonly messages: readonly OpenAI.ChatCompletionMessageParam[];
  /** Length of each choice, tokens. */
  readonly numTokens: number;
  /** Choices. Default 1. */
  readonly n?: number;
  readonly logprobs?: boolean;
}

/** Counts are tokens, times milliseconds. */
export interface StreamedAnswer {
  readonly promptTokens: number;
  /** Null if the server does not report it. */
  readonly cachedTokens: number | null;
  readonly completionTokens: number;
  readonly firstTokenMs: number;
  /** Times between consecutive chunks with tokens of one choice. */
  readonly gapsMs: readonly number[];
  /** Text of the first choice. */
  readonly text: string;
}

/** Part of the tokens with log-probabilities that shows that all choices were computed. */
const LEAST_SCORED = 0.9;

/**
 * @throws {Error} if the server refuses, or returns another number of tokens than requested, which could not
 * be compared
 */
export async function streamAnswer(
  { client, fields }: Pick<ServerUnderTest, 'client' | 'fields'>,
  work: ChatWork,
): Promise<StreamedAnswer> {
  const { model, messages, numTokens, n = 1, logprobs = false } = work;
  const startedAt = performance.now();
  const lastAt = new Map<number, number>();
  let numScores = 0;
  const gapsMs: number[] = [];
  let firstTokenMs: number | null = null;
  let usage: OpenAI.CompletionUsage | null = null;
  let text = '';
  // `ignore_eos` is not a field of OpenAI's, but one of all servers of this kind. Without a seed: rollouts need
  // none, and vLLM samples rows with one separately.
  const body = {
    ...modelFields(model),
    messages: [...messages],
    n,
    logprobs,
    temperature: 1,
    top_p: 1,
    max_tokens: numTokens,
    ignore_eos: true,
    stream: true as const,
    stream_options: { include_usage: true },
    ...fields?.(work),
  };
  for await (const chunk of await client.chat.completions.create(body)) {
    const now = performance.now();
    for (const { index, delta, logprobs: scores } of chunk.choices) {
      numScores += scores?.content?.length ?? 0;
      const hasTokens = (delta.content ?? '') !== '' || (scores?.content?.length ?? 0) > 0;
      if (!hasTokens) continue;
      if (index === 0) text += delta.content ?? '';
      firstTokenMs ??= now - startedAt;
      const before = lastAt.get(index);
      if (before !== undefined) gapsMs.push(now - before);
      lastAt.set(index, now);
    }
    usage = chunk.usage ?? usage;
  }
  if (usage === null || firstTokenMs === null) throw new Error('the stream reported no tokens or no usage');
  const completionTokens = n * numTokens;
  // The usage of llama-server counts one choice of several. Its log-probabilities lack tokens that end inside a character.
  const countsOne = n > 1 && usage.completion_tokens === numTokens && numScores >= LEAST_SCORED * completionTokens;
  if (usage.completion_tokens !== completionTokens && !countsOne)
    throw new Error(
      `${n} × ${numTokens} tokens were requested, got ${usage.completion_tokens}` +
        (logprobs ? ` and ${numScores} log-probabilities` : ''),
    );
  return {
    promptTokens: usage.prompt_tokens,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? null,
    completionTokens,
    firstTokenMs,
    gapsMs,
    text,
  };
}

/** `lora:ID` is an adapter of llama-server, which a field of the request switches on instead of a name. */
function modelFields(model: string): { readonly model: string; readonly lora?: readonly object[] } {
  const [, id] = /^lora:(\d+)$/.exec(model) ?? [];
  return id === undefined ? { model } : { model, lora: [{ id: Number(id), scale: 1 }] };
}
