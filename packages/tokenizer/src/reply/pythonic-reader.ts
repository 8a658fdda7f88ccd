import { readCallList } from './call-object.ts';
import type { CallReader } from './call-writer.ts';
import { scanAndMark } from './json-call-readers.ts';
import { parsePythonCall } from './python-call.ts';
import { MalformedReply, type Reading, type ReplyText } from './reply-text.ts';

const OPENINGS = ['<|tool_call_start|>', '<|python_start|>', '<|python_tag|>'];

/**
 * Reader of `[f(a=1), g(b="x")]` at the start of a reply or after an opening tag. LFM2 writes objects there on
 * request.
 */
export const readPythonic: CallReader = function* (text, calls, isSingle) {
  text.mark();
  if ((yield* text.skipSpace()) !== '[') {
    text.rewind();
    if ((yield* scanAndMark(text, OPENINGS, calls)) === null) return;
    yield* text.skipSpace();
  }
  yield* text.expect('[');
  if ((yield* text.skipSpace()) === '{') return yield* readCallList(text, calls, { isMarked: true }, isSingle);
  for (;;) {
    const call = parsePythonCall(yield* readCallSource(text));
    calls.start(call.name);
    calls.arguments(call.arguments);
    calls.finish();
    if (isSingle) return;
    text.mark();
    if ((yield* text.skipSpace()) !== ',') break;
    text.skip(1);
  }
  yield* text.expectUnlessEnded(']');
};

/** Reads up to the closing parenthesis. Fails at once on text that cannot be a call. */
function* readCallSource(text: ReplyText): Reading<string> {
  yield* text.skipSpace();
  let source = yield* text.takeAll(/[\w.]+/y);
  if (!/^[A-Za-z_]/.test(source)) throw new MalformedReply('expected the name of a function');
  yield* text.expect('(');
  source += '(';
  let depth = 1;
  let quote = '';
  while (depth > 0) {
    source += text.take(quote === '' ? /[^'"()[\]{}]+/y : /[^'"\\]+/y);
    const character = yield* text.next();
    if (character === '') throw new MalformedReply('a call that is not closed');
    source += character;
    if (quote !== '') {
      if (character === '\\') source += yield* text.next();
      else if (character === quote) quote = '';
    } else if (character === '"' || character === "'") quote = character;
    else if ('([{'.includes(character)) depth++;
    else if (')]}'.includes(character)) depth--;
  }
  return source;
}
