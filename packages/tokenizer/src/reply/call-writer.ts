import type { Reading, ReplyText } from './reply-text.ts';

/** Receiver of the parts that readers of tool calls find, in order: text, then calls one after the other. */
export interface CallWriter {
  /** Text for the reader of the reply. Text after the first call is lost. */
  content(text: string): void;
  /** Reasoning that the format itself marks. */
  reason(text: string): void;
  /** A call whose name is known. @param id from the reply, if its format has ids that templates write again */
  start(name: string, id?: string): void;
  /** More of the arguments of the call that was started last. */
  arguments(fragment: string): void;
  /** The call that was started last is whole, and its arguments are an object. */
  finish(): void;
}

/**
 * Reads the calls of one format. Returns when nothing that follows can matter; what it did not read is lost.
 *
 * Text that would have to become content if the call turned out to be none is marked; the mark goes when the call is reported.
 *
 * @param isSingle only the first call counts
 * @throws {MalformedReply}
 */
export type CallReader = (text: ReplyText, calls: CallWriter, isSingle: boolean) => Reading;
