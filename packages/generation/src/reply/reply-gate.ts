import { HARMONY_MARKS, heldBack } from '@trainyard/tokenizer';

import { REASONING_END, REASONING_START } from '../prompt/reply-traits.ts';

/** Text of a reply. Stop strings count in its answer, but not in reasoning, marks and headers of messages. */
export interface GatedText {
  readonly text: string;
  readonly isAnswer: boolean;
}

/** Separates the text of one choice into its answer and the rest, as it arrives. */
export interface ReplyGate {
  push(text: string): GatedText[];
  end(): string;
}

/** Form of the reasoning in replies: a `<think>` block that the prompt may have opened, or the channels of gpt-oss. */
export type ReasoningForm = { readonly kind: 'block'; readonly startsInside: boolean } | { readonly kind: 'channels' };

export function openReplyGate(form: ReasoningForm): ReplyGate {
  switch (form.kind) {
    case 'block':
      return new BlockGate(form.startsInside);
    case 'channels':
      return new ChannelGate();
    default:
      return form satisfies never;
  }
}

/** Reasoning with both marks, then the answer. */
class BlockGate implements ReplyGate {
  #state: 'unknown' | 'reasoning' | 'answer';
  /** Text held back: it may open the reasoning, or be the start of its end. */
  readonly #held = new HeldText();

  /** @param startsInside the prompt has opened the reasoning; otherwise the reply may */
  constructor(startsInside: boolean) {
    this.#state = startsInside ? 'reasoning' : 'unknown';
  }

  push(text: string): GatedText[] {
    const held = this.#held;
    held.add(text);
    if (this.#state === 'unknown') this.#open();
    if (this.#state === 'unknown') return [];
    if (this.#state === 'answer') return [held.take(true)];
    const end = held.text.indexOf(REASONING_END);
    if (end < 0) return [held.take(false, held.text.length - heldBack([REASONING_END], held.text))];
    this.#state = 'answer';
    return [held.take(false, end + REASONING_END.length), held.take(true)];
  }

  end(): string {
    return this.#held.take(true).text;
  }

  #open(): void {
    const text = this.#held.text.trimStart();
    if (text.startsWith(REASONING_START)) this.#state = 'reasoning';
    else if (!REASONING_START.startsWith(text)) this.#state = 'answer';
  }
}

/**
 * Messages of gpt-oss: bodies outside the channel `analysis` are answer. A reply without a header is all
 * answer.
 */
class ChannelGate implements ReplyGate {
  #state: 'unknown' | 'header' | 'analysis' | 'body' | 'plain' = 'unknown';
  #header = '';
  readonly #held = new HeldText();

  push(text: string): GatedText[] {
    this.#held.add(text);
    const parts: GatedText[] = [];
    while (this.#advance(parts));
    return parts;
  }

  end(): string {
    return this.#held.take(true).text;
  }

  /** @returns true if another part of the text may follow */
  #advance(parts: GatedText[]): boolean {
    const held = this.#held;
    const { starts, message, ends } = HARMONY_MARKS;
    switch (this.#state) {
      case 'unknown':
        if (starts.some((start) => held.text.startsWith(start))) this.#state = 'header';
        else if (!starts.some((start) => start.startsWith(held.text))) this.#state = 'plain';
        return this.#state !== 'unknown';
      case 'header': {
        const hasEnded = this.#takeTo([message], false, parts);
        this.#header += parts.at(-1)?.text ?? '';
        if (!hasEnded) return false;
        this.#state = HARMONY_MARKS.analysis.test(this.#header) ? 'analysis' : 'body';
        return true;
      }
      case 'analysis':
      case 'body':
        if (!this.#takeTo(ends, this.#state === 'body', parts)) return false;
        this.#state = 'header';
        this.#header = '';
        return true;
      case 'plain':
        parts.push(held.take(true));
        return false;
      default:
        return this.#state satisfies never;
    }
  }

  /** Takes the text before the first mark, and the mark itself. @returns true if there is one */
  #takeTo(marks: readonly string[], isAnswer: boolean, parts: GatedText[]): boolean {
    const held = this.#held;
    const found = marks
      .map((mark) => ({ mark, at: held.text.indexOf(mark) }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at)[0];
    parts.push(held.take(isAnswer, found?.at ?? held.text.length - heldBack(marks, held.text)));
    if (found !== undefined) parts.push(held.take(false, found.mark.length));
    return found !== undefined;
  }
}

class HeldText {
  text = '';

  add(text: string): void {
    this.text += text;
  }

  /** @param length default: all of it */
  take(isAnswer: boolean, length = this.text.length): GatedText {
    const text = this.text.slice(0, length);
    this.text = this.text.slice(length);
    return { text, isAnswer };
  }
}
