import { EMPTY_REPLY, type Reply } from './reply.ts';

/** The answer of one of the models to an input. */
export interface Answer {
  readonly replies: readonly Reply[];
  readonly isStreaming: boolean;
  readonly error: unknown;
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

export const NO_ANSWER: Answer = { replies: [EMPTY_REPLY], isStreaming: true, error: null };

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
