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
  /** The reply was cut off within a call: the last one is half of one, or had not even started. */
  isCutOff?: true;
}

interface ReplyRecordOptions {
  toolCallId: (index: number) => string;
  /** Hold white space at the start of the content back until other content follows: in front of a call it is lost. */
  holdsSpace: boolean;
  /** Calls are reported while they arrive: a constraint makes them whole. Others are reported once they are. */
  isLive: boolean;
  /** A call is being reported, so that its text is no content any more. */
  onReport: () => void;
}

/** Collects a reply, and the part of it that was not given out yet. */
export class ReplyRecord implements CallWriter {
  reasoning = '';
  text = ''; // the content; `content` is the verb
  readonly toolCalls: ParsedReply['toolCalls'] = [];
  readonly #options: ReplyRecordOptions;
  #heldSpace = '';
  #pending: { name: string; arguments: string; id: string | null } | null = null; // started, not reported
  #isHalf = false;
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

  start(name: string, id?: string): void {
    this.#pending = { name, arguments: '', id: id ?? null };
    if (this.#options.isLive) this.report();
  }

  arguments(fragment: string): void {
    if (this.#pending !== null) {
      this.#pending.arguments += fragment;
      return;
    }
    const index = this.toolCalls.length - 1;
    const call = this.toolCalls[index];
    if (call === undefined) throw new Error('arguments of a call that was not started');
    call.arguments += fragment;
    const last = this.#delta.toolCalls.at(-1);
    if (last?.index === index) last.arguments += fragment;
    else this.#delta.toolCalls.push({ index, arguments: fragment });
  }

  finish(): void {
    this.report();
    this.#isHalf = false;
  }

  /** Reports the call that was started last as far as it came. */
  report(): void {
    if (this.#pending === null) return;
    const { name, arguments: text, id: ownId } = this.#pending;
    this.#pending = null;
    this.#isHalf = true;
    this.#heldSpace = '';
    const index = this.toolCalls.length;
    const isFree = ownId !== null && !this.toolCalls.some((call) => call.id === ownId);
    const id = isFree ? ownId : this.#options.toolCallId(index);
    this.toolCalls.push({ id, name, arguments: text });
    this.#delta.toolCalls.push({ index, id, name, arguments: text });
    this.#options.onReport();
  }

  /** Drops the call that was started last unless it was reported: it is none, and its text is content. */
  drop(): void {
    this.#pending = null;
  }

  /** The last call that was reported is not finished. */
  get isHalf(): boolean {
    return this.#isHalf;
  }
}

function emptyDelta(): ReplyDelta {
  return { content: '', reasoning: '', toolCalls: [] };
}
