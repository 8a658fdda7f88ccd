import { SftLineSchema, TEXT_PART_TYPES, type WireSftLine } from '@trainyard/protocol';
import { readPythonArguments } from '@trainyard/generation';
import { parse } from 'secure-json-parse';

import { isDeeperThan, MAX_JSON_DEPTH, TOO_DEEP } from '../../seams/json/json-depth.ts';
import { INFINITE, placeOfInfinity } from '../../seams/json/infinite-numbers.ts';
import { jsonFaultPosition } from '../../seams/json/json-fault.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import { isObject } from '../../seams/json/is-object.ts';
import { keepSourceTexts } from '../../seams/json/source-texts.ts';
import { lineFault, textLines } from '../../seams/json/text-lines.ts';
import { compileLargeBodyCheck } from '../../seams/faults/validation.ts';
import { writeArguments } from '../../seams/chat/written-arguments.ts';
import { withReadableResults } from '../../seams/chat/readable-results.ts';
import { withChatCalls } from './langchain-calls.ts';

const checkLine = compileLargeBodyCheck(SftLineSchema);

/** Templates do not render it: training would see an empty reply. */
const FORMER_CALL = 'Input should be null or absent: put the call into `tool_calls`';

type Place = readonly (string | number)[];

/**
 * Conversations of a JSON Lines text, each checked: after that a job can fail only if a template refuses a
 * conversation. Blank lines are skipped; keys other than `messages`, `tools` and `chat_template_kwargs` are
 * dropped.
 * @param place of the text in the request, for messages
 * @throws {RequestError} `request.invalid`, with the line, the fault and its place
 */
export async function* readSftLines(
  chunks: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  place: Place,
): AsyncGenerator<WireSftLine> {
  for await (const { number, text } of textLines(chunks, place)) {
    if (text.trim() !== '') yield readLine(text, number, place);
  }
}

function readLine(text: string, number: number, place: Place): WireSftLine {
  const sent = parsed(text, number, place);
  if (isDeeperThan(sent, MAX_JSON_DEPTH)) throw lineFault({ place, line: number }, 'recursion_limit', TOO_DEEP);
  keepSourceTexts(sent, text);
  const value = withMessages(sent);
  try {
    checkLine(value);
  } catch (error) {
    if (!(error instanceof RequestError) || error.items === null) throw error;
    throw RequestError.invalid(
      error.items.map((item) => ({ ...item, loc: [...place, 'line', number, ...item.loc.slice(1)] })),
    );
  }
  const { messages, tools, chat_template_kwargs: variables } = value as WireSftLine;
  const infinite = placeOfInfinity({ messages, tools, chat_template_kwargs: variables });
  if (infinite !== null) throw lineFault({ place, line: number, below: infinite }, 'finite_number', INFINITE);
  writeArguments(messages);
  messages.forEach((message, index) => {
    const at = ['messages', index];
    if (Array.isArray(message.content)) {
      message.content.forEach((part, partIndex) => {
        const msg = partFault(part);
        const below = [...at, 'content', partIndex];
        if (msg !== null) throw lineFault({ place, line: number, below }, 'not_supported', msg);
      });
    }
    const { function_call: formerCall } = message as { function_call?: unknown };
    if (formerCall !== undefined && formerCall !== null)
      throw lineFault({ place, line: number, below: [...at, 'function_call'] }, 'not_supported', FORMER_CALL);
    (message.tool_calls ?? []).forEach((call, callIndex) => {
      if (isArguments(call.function.arguments)) return;
      const below = [...at, 'tool_calls', callIndex, 'function', 'arguments'];
      const msg = 'Input should be a JSON object, or a string with one';
      throw lineFault({ place, line: number, below }, 'json_invalid', msg);
    });
  });
  return { messages, ...(tools ? { tools } : {}), ...(variables ? { chat_template_kwargs: variables } : {}) };
}

function withMessages(value: unknown): unknown {
  if (!isObject(value) || !Array.isArray(value['messages'])) return value;
  const messages = withReadableResults(withChatCalls(value['messages']));
  return messages === value['messages'] ? value : { ...value, messages };
}

function parsed(text: string, number: number, place: Place): unknown {
  try {
    return parse(text, undefined, { protoAction: 'remove', constructorAction: 'remove' });
  } catch (error) {
    // A line too deep for the parser's stack is not a syntax error.
    if (error instanceof RangeError)
      throw lineFault({ place, line: number }, 'recursion_limit', 'Line is nested too deeply');
    const msg = `Line is not valid JSON, at position ${jsonFaultPosition(text)}: ${(error as Error).message}`;
    throw lineFault({ place, line: number }, 'json_invalid', msg);
  }
}

/** Reason why a part of a message's content cannot be rendered as text, or null. */
function partFault(part: string | { type?: string; [key: string]: unknown }): string | null {
  if (typeof part === 'string') return null;
  const type = part.type ?? 'text';
  if (!(TEXT_PART_TYPES as readonly string[]).includes(type))
    return `This model reads only text: a part should be one of ${TEXT_PART_TYPES.join(', ')}, got ${type.slice(0, 100)}`;
  const key = type === 'refusal' || type === 'thinking' ? type : 'text';
  return typeof part[key] === 'string' ? null : `A part of type ${type} should have \`${key}\`, a string`;
}

/** Other text would reach the template unparsed, as no model writes calls. */
function isArguments(value: unknown): boolean {
  return typeof value !== 'string' || readPythonArguments(value) !== null;
}
