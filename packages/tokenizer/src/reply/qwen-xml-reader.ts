import type { ToolDescription } from '../contract/tool-description.ts';
import { CallArguments } from './call-arguments.ts';
import type { CallReader, CallWriter } from './call-writer.ts';
import { scanAndMark } from './json-call-readers.ts';
import { MalformedReply, type Reading, type ReplyText } from './reply-text.ts';

const TOOL_CALL = '<tool_call>';
const FUNCTION = '<function=';
const PARAMETER = '<parameter=';
const PARAMETER_END = '</parameter>';
const FUNCTION_END = '</function>';
const CALL_END = '</tool_call>';

/**
 * Reader of `<tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>`, the outer tag
 * optional. One newline at each end of VALUE is dropped, and the tool's schema gives its type. A value cut by
 * the end of the reply does not count.
 */
export function qwenXmlReader(tools: readonly ToolDescription[]): CallReader {
  return function* (text, calls, isSingle) {
    for (;;) {
      const tag = yield* scanAndMark(text, [TOOL_CALL, FUNCTION], calls);
      if (tag === null) return;
      if (tag === TOOL_CALL) {
        yield* text.skipSpace();
        yield* text.expect(FUNCTION);
      }
      yield* readFunction(text, calls, tools);
      if (isSingle) return;
    }
  };
}

function* readFunction(text: ReplyText, calls: CallWriter, tools: readonly ToolDescription[]): Reading {
  const written = new CallArguments(calls, tools, yield* readTagName(text));
  yield* text.skipSpace();
  while (yield* text.accept(PARAMETER)) {
    const key = yield* readTagName(text);
    written.add(key, yield* readValue(text, written));
    yield* text.skipSpace();
  }
  yield* text.expectUnlessFinished(FUNCTION_END);
  written.finish();
}

/** Reads the rest of `<function=` or `<parameter=`. */
function* readTagName(text: ReplyText): Reading<string> {
  const name = (yield* text.takeAll(/[^<>\n]+/y)).trim();
  yield* text.expect('>');
  if (name === '') throw new MalformedReply('a tag without a name');
  return name;
}

/**
 * Reads a value, which may be unclosed. Tags inside are part of it unless another parameter of the tool, or the
 * end of the call, follows.
 */
function* readValue(text: ReplyText, written: CallArguments): Reading<string> {
  let value = '';
  for (;;) {
    const end = yield* text.scanTo([PARAMETER_END, PARAMETER, FUNCTION_END], (piece) => (value += piece));
    if (end === null) throw new MalformedReply('a value that is not closed');
    if (yield* isEnd(text, end, written)) break;
    text.skip(end.length);
    value += end;
  }
  yield* text.accept(PARAMETER_END);
  return value.replace(/^\n/, '').replace(/\n$/, '');
}

function* isEnd(text: ReplyText, tag: string, written: CallArguments): Reading<boolean> {
  if (tag === PARAMETER) return yield* text.isTagged(tag, (name) => written.knows(name.trim()) !== false);
  const next = tag === PARAMETER_END ? [PARAMETER, FUNCTION_END, CALL_END] : [CALL_END, TOOL_CALL, FUNCTION];
  return yield* text.isFollowedBy(next, tag.length);
}
