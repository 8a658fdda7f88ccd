import { EMPTY_REPLY, type Reply } from './reply.ts';

/** The answer of one of the models to an input. */
export interface Answer {
  readonly replies: readonly Reply[];
  readonly isStreaming: boolean;
  readonly error: unknown;
  /** Null before the first token. */
  readonly timing: AnswerTiming | null;
}

export interface AnswerTiming {
  /** Time to the first token, ms. */
  readonly firstMs: number;
  /** Time so far, ms. */
  readonly totalMs: number;
  /** Tokens of all choices, without those that were given. */
  readonly numTokens: number;
}

/** `0.42 s to the first token · 120 tokens · 35 tokens/s` */
export function timingText({ firstMs, totalMs, numTokens }: AnswerTiming): string {
  const seconds = (totalMs - firstMs) / 1000;
  const rate = numTokens > 1 && seconds > 0 ? ` · ${((numTokens - 1) / seconds).toPrecision(3)} tokens/s` : '';
  return `${(firstMs / 1000).toFixed(2)} s to the first token · ${numTokens} ${numTokens === 1 ? 'token' : 'tokens'}${rate}`;
}

/** An input, and the answers of the models. */
export interface Exchange {
  readonly input: string;
  /** Indexed by model, 0 or 1. */
  readonly answers: readonly (Answer | null)[];
}

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

export const NO_ANSWER: Answer = { replies: [EMPTY_REPLY], isStreaming: true, error: null, timing: null };

/** Returns the exchanges with one answer replaced. */
export function withAnswer(
  exchanges: readonly Exchange[],
  at: number,
  side: number,
  change: (before: Answer) => Answer,
): readonly Exchange[] {
  return exchanges.map((exchange, index) =>
    index !== at ? exchange : { ...exchange, answers: [0, 1].map((place) => answerAt(exchange, place, side, change)) },
  );
}

function answerAt(exchange: Exchange, place: number, side: number, change: (before: Answer) => Answer): Answer | null {
  const before = exchange.answers[place] ?? null;
  return place === side ? change(before ?? NO_ANSWER) : before;
}

/** The conversation of one model before an input, followed by that input. */
export function messagesFor(
  exchanges: readonly Exchange[],
  at: number,
  side: number,
  system: string,
): readonly ChatMessage[] {
  const before = exchanges.slice(0, at).flatMap(({ input, answers }) => {
    const content = answers[side]?.replies[0]?.content ?? '';
    const turn: ChatMessage[] = [{ role: 'user', content: input }];
    if (content !== '') turn.push({ role: 'assistant', content });
    return turn;
  });
  const input = exchanges[at]?.input ?? '';
  return [
    ...(system.trim() === '' ? [] : [{ role: 'system', content: system }]),
    ...before,
    { role: 'user', content: input },
  ];
}
