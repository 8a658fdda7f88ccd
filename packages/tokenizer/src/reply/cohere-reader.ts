import { readCallArray } from './call-object.ts';
import type { CallReader, CallWriter } from './call-writer.ts';
import type { Reading, ReplyText } from './reply-text.ts';

const RULES = { isMarked: true, nameKey: 'tool_name' } as const;
const ACTION = '<|START_ACTION|>';
const THINKING = '<|START_THINKING|>';
const FORMER_ACTION = 'Action:';
/** Marks around the text of a reply. */
const RESPONSE = ['<|START_RESPONSE|>', '<|END_RESPONSE|>', '<|START_TEXT|>', '<|END_TEXT|>'];

/**
 * Reader of `<|START_ACTION|>[{"tool_call_id": "0", "tool_name": …, "parameters": {…}}]<|END_ACTION|>`, with
 * marked thoughts and text; for Command-R also `Action:` and a list in a code block.
 */
export const readCohere: CallReader = function* (text, calls, isSingle) {
  for (;;) {
    const mark = yield* text.scanTo([ACTION, THINKING, FORMER_ACTION, ...RESPONSE], (piece) => calls.content(piece));
    if (mark === null) return;
    text.mark();
    text.skip(mark.length);
    if (mark === ACTION) {
      yield* text.skipSpace();
      yield* readCallArray(text, calls, RULES, isSingle);
      return;
    }
    if (mark === FORMER_ACTION) return yield* readFormerAction(text, calls, isSingle);
    text.unmark();
    if (mark === THINKING) yield* readThoughts(text, calls);
  }
};

function* readThoughts(text: ReplyText, calls: CallWriter): Reading {
  const end = yield* text.scanTo(['<|END_THINKING|>'], (piece) => calls.reason(piece));
  text.skip(end?.length ?? 0);
}

function* readFormerAction(text: ReplyText, calls: CallWriter, isSingle: boolean): Reading {
  yield* text.skipSpace();
  yield* text.expect('```');
  yield* text.accept('json');
  yield* text.skipSpace();
  yield* readCallArray(text, calls, RULES, isSingle);
}
