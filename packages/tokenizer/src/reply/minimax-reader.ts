import type { ToolDescription } from '../contract/tool-description.ts';
import { CallArguments, readClosedValue } from './call-arguments.ts';
import type { CallReader, CallWriter } from './call-writer.ts';
import { scanAndMark } from './json-call-readers.ts';
import { MalformedReply, type Reading, type ReplyText } from './reply-text.ts';

const SECTION = '<minimax:tool_call>';
const INVOKE = '<invoke name="';
const PARAMETER = '<parameter name="';

/**
 * Reader of `<minimax:tool_call><invoke name="NAME"><parameter
 * name="KEY">VALUE</parameter>…</invoke>…</minimax:tool_call>`.
 */
export function minimaxReader(tools: readonly ToolDescription[]): CallReader {
  return function* (text, calls, isSingle) {
    while ((yield* scanAndMark(text, [SECTION], calls)) !== null) {
      yield* text.skipSpace();
      while (yield* text.accept(INVOKE)) {
        yield* readInvocation(text, calls, tools);
        if (isSingle) return;
        text.mark();
        yield* text.skipSpace();
      }
      yield* text.expectUnlessEnded('</minimax:tool_call>');
    }
  };
}

function* readInvocation(text: ReplyText, calls: CallWriter, tools: readonly ToolDescription[]): Reading {
  const written = new CallArguments(calls, tools, yield* readName(text));
  yield* text.skipSpace();
  while (yield* text.accept(PARAMETER)) {
    const key = yield* readName(text);
    written.add(key, yield* readClosedValue(text, '</parameter>', [PARAMETER, '</invoke>']));
    yield* text.skipSpace();
  }
  yield* text.expectUnlessFinished('</invoke>');
  written.finish();
}

/** Reads the rest of a tag after the opening quote of its attribute. */
function* readName(text: ReplyText): Reading<string> {
  const name = yield* text.takeAll(/[^"<>\n]+/y);
  yield* text.expect('">');
  if (name === '') throw new MalformedReply('a tag without a name');
  return name;
}
