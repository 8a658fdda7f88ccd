import type { CallWriter } from './call-writer.ts';

/** New parts of a reply; '' and [] if none. */
export interface ReplyDelta {
  content: string;
  reasoning: string;
  toolCalls: ToolCallDelta[];
}

export interface ToolCallDelta {
  index: number;
  /** Only in the first delta of a call. */
  id?: string;
  /** Only in the first delta of a call. */
  name?: string;
  /** Next piece of the JSON text; '' if none. */
  arguments: string;
}

export interface ParsedReply {
  /** null if there is none; '' for replies that are calls by the request's choice. */
  content: string | null;
  reasoning: string | null;
  toolCalls: { id: string; name: string; arguments: string }[];
  /** The reply was cut off within a call: the last one is incomplete, or had not even started. */
  isCutOff?: true;
}

interface ReplyRecordOptions {
  toolCallId: (index: number) => string;
  /** Holds back leading white space until other content follows: before a call it is dropped. */
  holdsSpace: boolean;
  /** Reports calls as they arrive, because a constraint completes them. Otherwise once complete. */
  isLive: boolean;
  /** Called when a call is reported: its text is no longer content. */
  onReport: () => void;
}

export class ReplyRecord implements CallWriter {
  reasoning = '';
  text = ''; // the content; `content` is the method
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

  plain(text: string): void {
    this.#heldSpace += text;
    this.flush();
  }

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

  /** Reports the current call as far as it came. */
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

  /** Drops the current call unless it was reported: its text is content. */
  drop(): void {
    this.#pending = null;
  }

  get isHalf(): boolean {
    return this.#isHalf;
  }
}

function emptyDelta(): ReplyDelta {
  return { content: '', reasoning: '', toolCalls: [] };
}
