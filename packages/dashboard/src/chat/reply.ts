import type { ChatCompletionChunk, TokenLogprobEntry } from '@trainyard/sdk';

/** A candidate token and its probability. */
export interface Alternative {
  readonly text: string;
  readonly logprob: number;
}

/** A sampled token. */
export interface ReplyToken extends Alternative {
  readonly bytes: readonly number[];
  /** The likeliest tokens, often including the sampled one. */
  readonly alternatives: readonly Alternative[];
}

/** One reply, as received so far. */
export interface Reply {
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly { readonly name: string; readonly arguments: string }[];
  readonly tokens: readonly ReplyToken[];
  readonly finishReason: string | null;
}

export const EMPTY_REPLY: Reply = { content: '', reasoning: '', calls: [], tokens: [], finishReason: null };

/** Adds a chunk to the replies. */
export function addChunk(replies: readonly Reply[], chunk: ChatCompletionChunk): readonly Reply[] {
  if (chunk.choices.length === 0) return replies;
  const after = [...replies];
  for (const { index, delta, logprobs, finish_reason: finishReason } of chunk.choices) {
    while (after.length <= index) after.push(EMPTY_REPLY);
    const reply = after[index]!;
    const calls = reply.calls.map((call) => ({ ...call }));
    for (const piece of delta.tool_calls ?? []) {
      const call = (calls[piece.index] ??= { name: '', arguments: '' });
      call.name += piece.function?.name ?? '';
      call.arguments += piece.function?.arguments ?? '';
    }
    after[index] = {
      content: reply.content + (delta.content ?? ''),
      reasoning: reply.reasoning + (delta.reasoning ?? ''),
      calls,
      tokens: [...reply.tokens, ...(logprobs?.content ?? []).map(toToken)],
      finishReason: finishReason ?? reply.finishReason,
    };
  }
  return after;
}

/** The text of the tokens before a place, followed by a replacement. */
export function textBefore(tokens: readonly ReplyToken[], index: number, instead = ''): string {
  const bytes = tokens.slice(0, index).flatMap((token) => token.bytes);
  return new TextDecoder().decode(Uint8Array.from(bytes)) + instead;
}

function toToken(entry: TokenLogprobEntry): ReplyToken {
  const { token, logprob, bytes, top_logprobs: top } = entry;
  return {
    text: token,
    logprob,
    bytes: bytes ?? [...new TextEncoder().encode(token)],
    alternatives: top.map((other) => ({ text: other.token, logprob: other.logprob })),
  };
}
