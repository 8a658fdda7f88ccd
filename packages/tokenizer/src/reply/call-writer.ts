import type { Reading, ReplyText } from './reply-text.ts';

/** Receiver of a reader's results: text, then calls one after the other. */
export interface CallWriter {
  /** Text after the first call is dropped. */
  content(text: string): void;
  /** Reasoning marked by the format. */
  reason(text: string): void;
  /** @param id from the reply, if its format has ids that templates repeat */
  start(name: string, id?: string): void;
  arguments(fragment: string): void;
  /** Arguments of the call are an object. */
  finish(): void;
}

/**
 * Reader of the calls of one format. Returns when the rest of the reply is irrelevant. Text that becomes content
 * if it is not a call is marked; the mark is removed when the call is reported.
 *
 * @param isSingle only the first call counts
 * @throws {MalformedReply}
 */
export type CallReader = (text: ReplyText, calls: CallWriter, isSingle: boolean) => Reading;
