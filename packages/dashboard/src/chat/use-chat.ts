import { useCallback, useEffect, useRef, useState } from 'react';

import { streamChat } from '../api/chat.ts';
import { type AnswerTiming, type Exchange, messagesFor, NO_ANSWER, withAnswer } from './chat-session.ts';
import { addChunk, EMPTY_REPLY, type Reply, type ReplyToken, textBefore } from './reply.ts';

/** Interval of redraws while streaming, ms. Drawing each token by itself would be too slow. */
const FRAME_MS = 40;

export interface ChatSettings {
  /** One model, or two that answer the same input. */
  readonly models: readonly string[];
  readonly system: string;
  /** Fields of the request apart from the conversation. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Body of the request to a model; snippets show the same. */
export function chatBody(
  model: string,
  messages: readonly object[],
  fields: ChatSettings['fields'],
): Record<string, unknown> & { model: string } {
  // The page shows texts of tokens instead of ids, and alternatives at each place.
  return { model, messages, logprobs: true, top_logprobs: 5, return_tokens_as_token_ids: false, ...fields };
}

/** A conversation with one or two models. @param first kept exchanges that it continues */
export function useChat(settings: ChatSettings, first: readonly Exchange[] = []) {
  const [exchanges, setExchanges] = useState<readonly Exchange[]>(first);
  const running = useRef(new Set<AbortController>());
  const latest = useRef({ settings, exchanges });
  latest.current = { settings, exchanges };

  const stop = useCallback(() => {
    for (const controller of running.current) controller.abort();
  }, []);
  useEffect(() => stop, [stop]);

  const run = async (at: number, side: number, body: ReturnType<typeof chatBody>, begun: readonly Reply[]) => {
    const controller = new AbortController();
    running.current.add(controller);
    let replies = begun;
    let drawnAt = 0;
    const startedAt = performance.now();
    const numGiven = numTokensOf(begun);
    let timing: AnswerTiming | null = null;
    const show = (isStreaming: boolean, error: unknown = null) =>
      setExchanges((before) => withAnswer(before, at, side, () => ({ replies, isStreaming, error, timing })));
    show(true);
    try {
      for await (const chunk of await streamChat(body, controller.signal)) {
        replies = addChunk(replies, chunk);
        const numTokens = numTokensOf(replies) - numGiven;
        const totalMs = performance.now() - startedAt;
        if (numTokens > (timing?.numTokens ?? 0))
          timing = { firstMs: timing === null ? totalMs : timing.firstMs, totalMs, numTokens };
        if (performance.now() - drawnAt < FRAME_MS) continue;
        drawnAt = performance.now();
        show(true);
      }
      show(false);
    } catch (error) {
      // The user stopped it, so the abort is no error.
      if (controller.signal.aborted) {
        replies = replies.map((reply) => ({ ...reply, finishReason: reply.finishReason ?? 'stopped by you' }));
        show(false);
      } else show(false, error);
    } finally {
      running.current.delete(controller);
    }
  };

  const send = (input: string) => {
    const { models, system, fields } = latest.current.settings;
    const after = [...latest.current.exchanges, { input, answers: models.map(() => NO_ANSWER) }];
    const at = after.length - 1;
    setExchanges(after);
    models.forEach((model, side) => {
      void run(at, side, chatBody(model, messagesFor(after, at, side, system), fields), [EMPTY_REPLY]);
    });
  };

  /** Samples the last answer again after a token, optionally replacing that token. */
  const continueFrom = (side: number, tokens: readonly ReplyToken[], index: number, instead?: string) => {
    const { settings: now, exchanges: before } = latest.current;
    const at = before.length - 1;
    const model = now.models[side];
    if (model === undefined || at < 0) return;
    const kept = tokens.slice(0, index);
    const chosen = tokens[index];
    const last: ReplyToken[] =
      chosen === undefined ? [] : instead === undefined ? [chosen] : [replaced(chosen, instead)];
    const start = textBefore([...kept, ...last], kept.length + last.length);
    const messages = [...messagesFor(before, at, side, now.system), { role: 'assistant', content: start }];
    const body = {
      ...chatBody(model, messages, now.fields),
      continue_final_message: true,
      add_generation_prompt: false,
    };
    void run(at, side, body, [{ ...EMPTY_REPLY, content: start, tokens: [...kept, ...last] }]);
  };

  /** Replaces the conversation, for a new or a kept one, or a branch. */
  const replace = (next: readonly Exchange[]) => {
    stop();
    setExchanges(next);
  };

  const isStreaming = exchanges.some(({ answers }) => answers.some((answer) => answer?.isStreaming === true));
  return { exchanges, isStreaming, send, continueFrom, stop, replace };
}

function numTokensOf(replies: readonly Reply[]): number {
  return replies.reduce((sum, { tokens }) => sum + tokens.length, 0);
}

function replaced(token: ReplyToken, text: string): ReplyToken {
  const logprob = token.alternatives.find((other) => other.text === text)?.logprob ?? token.logprob;
  return { ...token, text, logprob, bytes: [...new TextEncoder().encode(text)] };
}
