import { readArguments } from '../contract/arguments-text.ts';
import type { CallWriter } from './call-writer.ts';
import { readJsonString, rewriteJson, rewriteJsonText } from './json-reader.ts';
import { MalformedReply, type Reading, type ReplyText } from './reply-text.ts';

export interface CallObjectRules {
  /**
   * True after a mark that identifies a call: other keys are skipped, and arguments may be missing (`{}`). Without
   * it an object needs a name and arguments, and may have only `id` and `type` besides.
   */
  isMarked: boolean;
  /** Default: `name`. */
  nameKey?: 'tool_name';
}

const ARGUMENT_KEYS: readonly string[] = ['arguments', 'parameters'];
const HARMLESS_KEYS: readonly string[] = ['id', 'type'];

/**
 * Reads `{"name": …, "arguments": {…}}`, keys in any order, or `parameters`. Reports arguments as they arrive,
 * once the name is known; the caller finishes the call.
 *
 * @throws {MalformedReply} for anything else
 */
export function* readCallObject(text: ReplyText, calls: CallWriter, rules: CallObjectRules): Reading {
  let name: string | null = null;
  let earlyArguments: string | null = null; // arguments before the name
  let hasArguments = false;
  const nameKey = rules.nameKey ?? 'name';
  yield* text.expect('{');
  if ((yield* text.skipSpace()) === '}') throw new MalformedReply('a call without a name');
  for (;;) {
    yield* text.skipSpace();
    const key = yield* readJsonString(text);
    yield* text.skipSpace();
    yield* text.expect(':');
    yield* text.skipSpace();
    if (key === nameKey && name === null) {
      name = yield* readJsonString(text);
      if (name === '') throw new MalformedReply('a call with an empty name');
      if (rules.isMarked || earlyArguments !== null) calls.start(name);
      if (earlyArguments !== null) calls.arguments(earlyArguments);
    } else if (ARGUMENT_KEYS.includes(key) && !hasArguments) {
      hasArguments = true;
      if (name === null) {
        earlyArguments = '';
        yield* rewriteArguments(text, (fragment) => (earlyArguments += fragment));
      } else {
        if (!rules.isMarked) calls.start(name);
        yield* rewriteArguments(text, (fragment) => calls.arguments(fragment));
      }
    } else if (key !== nameKey && !ARGUMENT_KEYS.includes(key) && (rules.isMarked || HARMLESS_KEYS.includes(key))) {
      yield* rewriteJson(text, () => {});
    } else {
      throw new MalformedReply(`unexpected key ${key}`);
    }
    if ((yield* text.skipSpace()) !== ',') break;
    text.skip(1);
  }
  yield* text.expect('}');
  if (name === null) throw new MalformedReply('a call without a name');
  if (hasArguments) return;
  if (!rules.isMarked) throw new MalformedReply('a bare object without arguments');
  calls.arguments('{}');
}

/** Reads `[{…}, {…}]`; an unclosed list ends with its last complete call. @throws {MalformedReply} */
export function* readCallArray(text: ReplyText, calls: CallWriter, rules: CallObjectRules, isSingle: boolean): Reading {
  yield* text.expect('[');
  if ((yield* text.skipSpace()) === ']') {
    text.skip(1);
    return text.unmark();
  }
  yield* readCallList(text, calls, rules, isSingle);
}

/** Like {@link readCallArray}, after the opening bracket. @throws {MalformedReply} */
export function* readCallList(text: ReplyText, calls: CallWriter, rules: CallObjectRules, isSingle: boolean): Reading {
  for (;;) {
    yield* readCallObject(text, calls, rules);
    calls.finish();
    if (isSingle) return;
    if ((yield* text.skipSpace()) !== ',') break;
    text.skip(1);
    yield* text.skipSpace();
    text.mark();
  }
  yield* text.expectUnlessEnded(']');
}

/**
 * Reads an object, `null` for `{}`, or a JSON string of an object, as in Granite 4.
 *
 * @throws {MalformedReply} for another value, which is not a call
 */
export function* rewriteArguments(text: ReplyText, write: (fragment: string) => void): Reading {
  const first = yield* text.skipSpace();
  if (first === '{') return yield* rewriteJson(text, write);
  let value = '';
  yield* rewriteJson(text, (fragment) => (value += fragment));
  if (value === 'null') return write('{}');
  const found = readArguments(value);
  if (found === null) throw new MalformedReply('arguments that are no object');
  write(rewriteJsonText(found.source));
}
