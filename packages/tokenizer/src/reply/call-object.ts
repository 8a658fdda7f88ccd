import type { CallWriter } from './call-writer.ts';
import { readJsonString, rewriteJson } from './json-reader.ts';
import { MalformedReply, type Reading, type ReplyText } from './reply-text.ts';

export interface CallObjectRules {
  /**
   * A mark in front says that this is a call. Then other keys are passed over, the name is given out once it is known, and arguments
   * may be missing (`{}`). Without one, any other object must be recognised: it needs both, and may have `id` and `type` besides.
   */
  isMarked: boolean;
}

const ARGUMENT_KEYS: readonly string[] = ['arguments', 'parameters'];
const HARMLESS_KEYS: readonly string[] = ['id', 'type'];

/**
 * Reads `{"name": …, "arguments": {…}}`, keys in any order, `parameters` for `arguments`. Arguments are given out as they arrive,
 * once the name is known; `null` becomes `{}`.
 *
 * @throws {MalformedReply} for anything else
 */
export function* readCallObject(text: ReplyText, calls: CallWriter, rules: CallObjectRules): Reading {
  let name: string | null = null;
  let hasStarted = false;
  let earlyArguments: string | null = null; // those in front of the name
  let hasArguments = false;
  const start = (known: string) => {
    if (!hasStarted) calls.start(known);
    hasStarted = true;
  };
  yield* text.expect('{');
  if ((yield* text.skipSpace()) === '}') throw new MalformedReply('a call without a name');
  for (;;) {
    yield* text.skipSpace();
    const key = yield* readJsonString(text);
    yield* text.skipSpace();
    yield* text.expect(':');
    yield* text.skipSpace();
    if (key === 'name' && name === null) {
      name = yield* readJsonString(text);
      if (name === '') throw new MalformedReply('a call with an empty name');
      if (rules.isMarked || earlyArguments !== null) start(name);
      if (earlyArguments !== null) calls.arguments(earlyArguments);
    } else if (ARGUMENT_KEYS.includes(key) && !hasArguments) {
      hasArguments = true;
      if (name === null) {
        earlyArguments = '';
        yield* rewriteArguments(text, (fragment) => (earlyArguments += fragment));
      } else {
        start(name);
        yield* rewriteArguments(text, (fragment) => calls.arguments(fragment));
      }
    } else if (key !== 'name' && !ARGUMENT_KEYS.includes(key) && (rules.isMarked || HARMLESS_KEYS.includes(key))) {
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

/**
 * Reads `[{…}, {…}]`; a list that is not closed ends with its last whole call.
 * @throws {MalformedReply}
 */
export function* readCallArray(text: ReplyText, calls: CallWriter, rules: CallObjectRules, isSingle: boolean): Reading {
  yield* text.expect('[');
  if ((yield* text.skipSpace()) === ']') {
    text.skip(1);
    return text.unmark();
  }
  for (;;) {
    yield* readCallObject(text, calls, rules);
    if (isSingle) return;
    if ((yield* text.skipSpace()) !== ',') break;
    text.skip(1);
    yield* text.skipSpace();
    text.mark();
  }
  yield* text.expectUnlessEnded(']');
}

function* rewriteArguments(text: ReplyText, write: (fragment: string) => void): Reading {
  let isFirst = true;
  yield* rewriteJson(text, (fragment) => {
    write(isFirst && fragment === 'null' ? '{}' : fragment); // a scalar comes in one piece
    isFirst = false;
  });
}
