import type { OutputEvent } from './chat-events.ts';

/** Joins small outputs: emits one each time a choice has `interval` new tokens, and one when it ends. */
export class OutputGatherer {
  readonly #interval: number;
  readonly #waiting = new Map<number, OutputEvent>();

  constructor(interval: number) {
    this.#interval = interval;
  }

  /** @returns the output that is due, or null if none is */
  gather(event: OutputEvent): OutputEvent | null {
    if (this.#interval === 1) return event;
    const before = this.#waiting.get(event.index);
    const whole = before === undefined ? ownCopy(event) : joined(before, event);
    if (whole.kind === 'delta' && whole.tokenIds.length < this.#interval) {
      this.#waiting.set(event.index, whole);
      return null;
    }
    this.#waiting.delete(event.index);
    return whole;
  }
}

function ownCopy(event: OutputEvent): OutputEvent {
  const { tokenIds, logprobs, reply } = event;
  const parts = reply && { ...reply, toolCalls: reply.toolCalls.map((call) => ({ ...call })) };
  return { ...event, tokenIds: [...tokenIds], logprobs: logprobs && [...logprobs], ...(parts ? { reply: parts } : {}) };
}

/** Appends to the lists of `before`, so that nothing is copied twice. */
function joined(before: OutputEvent, event: OutputEvent): OutputEvent {
  for (const id of event.tokenIds) before.tokenIds.push(id);
  for (const logprob of event.logprobs ?? []) before.logprobs?.push(logprob);
  const { tokenIds, logprobs, reply } = before;
  if (reply !== undefined && event.reply !== undefined) {
    reply.content += event.reply.content;
    reply.reasoning += event.reply.reasoning;
    for (const call of event.reply.toolCalls) {
      const last = reply.toolCalls.at(-1);
      if (last?.index === call.index) last.arguments += call.arguments;
      else reply.toolCalls.push({ ...call });
    }
  }
  return { ...event, text: before.text + event.text, tokenIds, logprobs, ...(reply ? { reply } : {}) };
}
