import { heldBack } from '@trainyard/tokenizer';

import { REASONING_END, REASONING_START } from '../prompt/reply-traits.ts';

/** Text of a reply as it arrives: reasoning, then text in which stop strings count. */
export interface GatedText {
  readonly reasoning: string;
  readonly answer: string;
}

/** Parts the text of one choice into its reasoning, with both marks, and the text behind it. */
export class ReasoningGate {
  #state: 'unknown' | 'reasoning' | 'answer';
  /** Not given out: it may open the reasoning, or be the beginning of its end. */
  #held = '';

  /** @param startsInside the prompt has opened the reasoning; otherwise the reply may */
  constructor(startsInside: boolean) {
    this.#state = startsInside ? 'reasoning' : 'unknown';
  }

  push(text: string): GatedText {
    this.#held += text;
    if (this.#state === 'unknown') this.#open();
    if (this.#state === 'unknown') return { reasoning: '', answer: '' };
    if (this.#state === 'answer') return { reasoning: '', answer: this.#take(this.#held.length) };
    const end = this.#held.indexOf(REASONING_END);
    if (end < 0)
      return { reasoning: this.#take(this.#held.length - heldBack([REASONING_END], this.#held)), answer: '' };
    this.#state = 'answer';
    const reasoning = this.#take(end + REASONING_END.length);
    return { reasoning, answer: this.#take(this.#held.length) };
  }

  /** The rest of the text. */
  end(): string {
    return this.#take(this.#held.length);
  }

  #open(): void {
    const text = this.#held.trimStart();
    if (text.startsWith(REASONING_START)) this.#state = 'reasoning';
    else if (!REASONING_START.startsWith(text)) this.#state = 'answer';
  }

  #take(length: number): string {
    const text = this.#held.slice(0, length);
    this.#held = this.#held.slice(length);
    return text;
  }
}
