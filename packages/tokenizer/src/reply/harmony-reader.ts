import { rewriteArguments } from './call-object.ts';
import type { CallReader, CallWriter } from './call-writer.ts';
import { MalformedReply, type Reading, type ReplyText } from './reply-text.ts';

const MESSAGE = '<|message|>';
const START = '<|start|>';
const BEGINNINGS = ['<|channel|>', START, ' to='];
const ENDS = ['<|end|>', '<|call|>', '<|return|>', START];
const ANALYSIS = /<\|channel\|>analysis\b/;

/** Marks of gpt-oss messages. */
export const HARMONY_MARKS = { starts: BEGINNINGS, message: MESSAGE, ends: ENDS, analysis: ANALYSIS } as const;

/**
 * Reader of gpt-oss messages: `<|channel|>analysis<|message|>…<|end|>` is reasoning, `to=functions.NAME` before
 * or after the channel makes a call of `<|message|>{…}<|call|>`, and all others are content. A reply without a
 * header is content.
 *
 * @param hasTools false: messages to tools are content
 */
export function harmonyReader(hasTools: boolean): CallReader {
  return function* (text, calls, isSingle) {
    if (!(yield* beginsMessage(text))) return yield* readContent(text, calls, []);
    for (;;) {
      text.mark();
      let header = '';
      const end = yield* text.scanTo([MESSAGE], (piece) => (header += piece));
      if (end === null) throw new MalformedReply('a header without a message');
      text.skip(MESSAGE.length);
      const name = /\bto=functions\.([^\s<]+)/.exec(header)?.[1];
      if (name !== undefined && hasTools) {
        calls.start(name);
        yield* rewriteArguments(text, (fragment) => calls.arguments(fragment));
        yield* text.skipSpace();
        yield* text.expectUnlessEnded((yield* text.startsWith('<|end|>')) ? '<|end|>' : '<|call|>');
        calls.finish();
        if (isSingle) return;
      } else {
        text.unmark();
        const isReasoning = name === undefined && ANALYSIS.test(header);
        yield* isReasoning ? readReasoning(text, calls) : readContent(text, calls, ENDS);
      }
      if ((yield* text.skipSpace()) === '') return;
    }
  };
}

function* beginsMessage(text: ReplyText): Reading<boolean> {
  for (const beginning of BEGINNINGS) if (yield* text.startsWith(beginning)) return true;
  return false;
}

function* readContent(text: ReplyText, calls: CallWriter, ends: readonly string[]): Reading {
  skipEnd(text, yield* text.scanTo(ends, (piece) => calls.content(piece)));
}

function* readReasoning(text: ReplyText, calls: CallWriter): Reading {
  skipEnd(text, yield* text.scanTo(ENDS, (piece) => calls.reason(piece)));
}

/** Skips an end mark, except the start of the next message, which belongs to its header. */
function skipEnd(text: ReplyText, end: string | null): void {
  if (end !== null && end !== START) text.skip(end.length);
}
