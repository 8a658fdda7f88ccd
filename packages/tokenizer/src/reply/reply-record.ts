import type { CallWriter } from './call-writer.ts';

/** The new parts of a reply; '' and [] where there are none. */
export interface ReplyDelta {
  content: string;
  reasoning: string;
  toolCalls: ToolCallDelta[];
}

export interface ToolCallDelta {
  index: number;
  /** With the first delta of a call only. */
  id?: string;
  /** With the first delta of a call only. */
  name?: string;
  /** The next piece of the JSON text; '' if there is none. */
  arguments: string;
}

export interface ParsedReply {
  /** null: there is none (only reasoning, or only calls); '' for replies that are calls by the request's choice. */
  content: string | null;
  reasoning: string | null;
  toolCalls: { id: string; name: string; arguments: string }[];
  /** The reply was cut off within a call: the last one is half of one, or was not even begun. */
  isCutOff?: true;
}

interface ReplyRecordOptions {
  toolCallId: (index: number) => string;
  /** Hold white space at the start of the content back until other content follows: in front of a call it is lost. */
  holdsSpace: boolean;
  onStart: () => void;
}

/** Collects a reply, and what of it was not given out yet. */
export class ReplyRecord implements CallWriter {
  reasoning = '';
  text = ''; // the content; `content` is the verb
  readonly toolCalls: ParsedReply['toolCalls'] = [];
  readonly #options: ReplyRecordOptions;
  #heldSpace = '';
  #delta: ReplyDelta = emptyDelta();

  constructor(options: ReplyRecordOptions) {
    this.#options = options;
  }

  takeDelta(): ReplyDelta {
    const delta = this.#delta;
    this.#delta = emptyDelta();
    return delta;
  }

  reason(text: string): void {
    this.reasoning += text;
    this.#delta.reasoning += text;
  }

  content(text: string): void {
    if (this.toolCalls.length > 0) return;
    this.#heldSpace += text;
    if (!this.#options.holdsSpace || this.text !== '' || this.#heldSpace.trim() !== '') this.flush();
  }

  /** Text that was to be a call, and is none. */
  plain(text: string): void {
    this.#heldSpace += text;
    this.flush();
  }

  /** Gives white space out that was held back. */
  flush(): void {
    this.text += this.#heldSpace;
    this.#delta.content += this.#heldSpace;
    this.#heldSpace = '';
  }

  start(name: string): void {
    this.#heldSpace = '';
    const index = this.toolCalls.length;
    const id = this.#options.toolCallId(index);
    this.toolCalls.push({ id, name, arguments: '' });
    this.#delta.toolCalls.push({ index, id, name, arguments: '' });
    this.#options.onStart();
  }

  arguments(fragment: string): void {
    const index = this.toolCalls.length - 1;
    const call = this.toolCalls[index];
    if (call === undefined) throw new Error('arguments of a call that was not started');
    call.arguments += fragment;
    const last = this.#delta.toolCalls.at(-1);
    if (last?.index === index) last.arguments += fragment;
    else this.#delta.toolCalls.push({ index, arguments: fragment });
  }
}

function emptyDelta(): ReplyDelta {
  return { content: '', reasoning: '', toolCalls: [] };
}
