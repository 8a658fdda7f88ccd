import { type CallObjectRules, readCallArray, readCallObject, rewriteArguments } from './call-object.ts';
import type { CallReader, CallWriter } from './call-writer.ts';
import { MalformedReply, type Reading, type ReplyText } from './reply-text.ts';

const MARKED = { isMarked: true };
const BARE = { isMarked: false };

/** Reader of `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, repeated. The last block may be unclosed. */
export const readHermes: CallReader = function* (text, calls, isSingle) {
  while ((yield* scanAndMark(text, ['<tool_call>'], calls)) !== null) {
    yield* text.skipSpace();
    yield* readCallObject(text, calls, MARKED);
    yield* text.skipSpace();
    yield* text.expectUnlessEnded('</tool_call>');
    calls.finish();
    if (isSingle) return;
  }
};

/** Reader of a reply that starts with an object, or of objects after `<|python_tag|>`; more after `;`. */
export const readLlamaJson: CallReader = function* (text, calls, isSingle) {
  text.mark();
  if ((yield* text.skipSpace()) !== '{') {
    text.rewind();
    if ((yield* scanAndMark(text, ['<|python_tag|>'], calls)) === null) return;
    yield* text.skipSpace();
  }
  for (;;) {
    yield* readCallObject(text, calls, BARE);
    calls.finish();
    if (isSingle) return;
    if ((yield* text.skipSpace()) === ';') {
      text.skip(1);
      yield* text.skipSpace();
    }
    if ((yield* text.peek()) !== '{') return;
    text.mark();
  }
};

const FUNCTION_NAME = /[\w.:-]+/y;

/**
 * Reader of `[TOOL_CALLS]` and a list of objects, or, in later models, a name and its arguments:
 * `[TOOL_CALLS]f[ARGS]{…}`.
 */
export const readMistral: CallReader = function* (text, calls, isSingle) {
  let tag = yield* scanAndMark(text, ['[TOOL_CALLS]'], calls);
  while (tag !== null) {
    const character = yield* text.skipSpace();
    if (character === '[') yield* readCallArray(text, calls, MARKED, isSingle);
    else {
      if (character === '{') yield* readCallObject(text, calls, MARKED);
      else yield* readNameAndArguments(text, calls);
      calls.finish();
    }
    if (isSingle) return;
    tag = yield* scanAndMark(text, ['[TOOL_CALLS]'], calls);
  }
};

function* readNameAndArguments(text: ReplyText, calls: CallWriter): Reading {
  const name = yield* text.takeAll(FUNCTION_NAME);
  if (name === '') throw new MalformedReply('a call without a name');
  if (yield* text.accept('[CALL_ID]')) yield* text.takeAll(FUNCTION_NAME);
  yield* text.accept('[ARGS]');
  yield* text.skipSpace();
  calls.start(name);
  yield* rewriteArguments(text, (fragment) => calls.arguments(fragment));
}

/** Reader of a list of objects after a mark; the closing mark is optional. */
function listReader(marks: readonly string[], closing: string | null, rules: CallObjectRules): CallReader {
  return function* (text, calls, isSingle) {
    while ((yield* scanAndMark(text, marks, calls)) !== null) {
      yield* text.skipSpace();
      yield* readCallArray(text, calls, rules, isSingle);
      if (isSingle || closing === null) return;
      yield* text.skipSpace();
      yield* text.expectUnlessEnded(closing);
    }
  };
}

/** Reader of `<|tool_call|>[{"name": …, "arguments": {…}}]`; Granite 3.1 has another mark. */
export const readGranite = listReader(['<|tool_call|>', '<tool_call>'], null, MARKED);

/** Reader of `<TOOLCALL>[{"name": …, "arguments": {…}}]</TOOLCALL>`. */
export const readNemotron = listReader(['<TOOLCALL>'], '</TOOLCALL>', MARKED);

const KIMI_CALL = '<|tool_call_begin|>';
const KIMI_SECTION = '<|tool_calls_section_begin|>';

/**
 * Reader of `<|tool_call_begin|>functions.NAME:INDEX<|tool_call_argument_begin|>{…}<|tool_call_end|>`, repeated,
 * within a section. The id is the call's: templates repeat it.
 */
export const readKimi: CallReader = function* (text, calls, isSingle) {
  let mark = yield* scanAndMark(text, [KIMI_SECTION, KIMI_CALL], calls);
  while (mark !== null) {
    if (mark === KIMI_SECTION) {
      yield* text.skipSpace();
      yield* text.expect(KIMI_CALL);
    }
    yield* text.skipSpace();
    const id = yield* text.takeAll(/[^<\s]+/y);
    const name = id.replace(/^functions\./, '').replace(/:\d+$/, '');
    if (name === '') throw new MalformedReply('a call without a name');
    yield* text.skipSpace();
    yield* text.expect('<|tool_call_argument_begin|>');
    calls.start(name, id);
    yield* rewriteArguments(text, (fragment) => calls.arguments(fragment));
    yield* text.skipSpace();
    yield* text.expectUnlessEnded('<|tool_call_end|>');
    calls.finish();
    if (isSingle) return;
    mark = yield* scanAndMark(text, [KIMI_SECTION, KIMI_CALL], calls);
  }
};

/** Reader of `[{"name": …, "parameters": {…}}]` and nothing else, the output under `tool_choice: "required"`. */
export const readJsonArray: CallReader = function* (text, calls, isSingle) {
  text.mark();
  yield* text.skipSpace();
  yield* readCallArray(text, calls, BARE, isSingle);
};

/** Passes text before a tag to the content, then marks the tag. */
export function* scanAndMark(text: ReplyText, tags: readonly string[], calls: CallWriter): Reading<string | null> {
  const tag = yield* text.scanTo(tags, (before) => calls.content(before));
  if (tag === null) return null;
  text.mark();
  text.skip(tag.length);
  return tag;
}
