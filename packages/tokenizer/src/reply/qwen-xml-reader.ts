import type { ToolDescription } from '../contract/tool-description.ts';
import type { CallReader, CallWriter } from './call-writer.ts';
import { scanAndMark } from './json-call-readers.ts';
import { pythonJson } from './python-json.ts';
import { MalformedReply, type Reading, type ReplyText } from './reply-text.ts';
import { jsonOfText, schemaTypes, type JsonType } from './schema-value.ts';

const TOOL_CALL = '<tool_call>';
const FUNCTION = '<function=';
const PARAMETER = '<parameter=';
const VALUE_ENDS = ['</parameter>', PARAMETER, '</function>'];

/**
 * `<tool_call><function=NAME><parameter=KEY>VALUE</parameter>…</function></tool_call>`, with or without the outer tag. One newline at each
 * end of VALUE is not part of it, and the tool's schema says what it is. Each value is given out when it is complete; a value that the
 * reply ends in is no value.
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
  const name = yield* readTagName(text);
  const tool = tools.find((candidate) => candidate.function.name === name);
  calls.start(name);
  const keys = new Set<string>();
  for (;;) {
    yield* text.skipSpace();
    if (!(yield* text.accept(PARAMETER))) break;
    const key = yield* readTagName(text);
    if (keys.has(key)) throw new MalformedReply(`parameter ${key} twice`);
    const value = jsonOfText(yield* readValue(text), parameterTypes(tool, key));
    calls.arguments(`${keys.size === 0 ? '{' : ', '}${pythonJson(key)}: ${value}`);
    keys.add(key);
  }
  yield* text.expectUnlessEnded('</function>');
  calls.arguments(keys.size === 0 ? '{}' : '}');
  calls.finish();
}

/** The rest of `<function=` or `<parameter=`. */
function* readTagName(text: ReplyText): Reading<string> {
  const name = (yield* text.takeAll(/[^<>\n]+/y)).trim();
  yield* text.expect('>');
  if (name === '') throw new MalformedReply('a tag without a name');
  return name;
}

function* readValue(text: ReplyText): Reading<string> {
  let value = '';
  const end = yield* text.scanTo(VALUE_ENDS, (piece) => (value += piece));
  if (end === null) throw new MalformedReply('a value that is not closed');
  if (end === VALUE_ENDS[0]) text.skip(end.length);
  return value.replace(/^\n/, '').replace(/\n$/, '');
}

function parameterTypes(tool: ToolDescription | undefined, key: string): ReadonlySet<JsonType> {
  const properties = tool?.function.parameters?.['properties'];
  const isKnown = typeof properties === 'object' && properties !== null && Object.hasOwn(properties, key);
  return schemaTypes(isKnown ? (properties as Record<string, unknown>)[key] : undefined);
}
