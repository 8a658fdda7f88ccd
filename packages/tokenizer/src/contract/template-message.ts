import { readPythonArguments } from './arguments-text.ts';
import { checkNestingDepth } from './nesting-depth.ts';
import { needsPythonValues, parsePythonValues } from './python-values.ts';
import { TokenizerError } from './tokenizer-error.ts';

/** Only text parts can be rendered. */
export interface ContentPart {
  readonly type?: string;
  readonly [key: string]: unknown;
}

/** A message with OpenAI's keys: role, content, name, tool_calls, tool_call_id, reasoning … */
export type TemplateMessage = {
  role: string;
  content?: string | readonly (ContentPart | string)[] | null;
  [key: string]: unknown;
};

/** A string, or a list of `{ type: 'text', text }`. */
export type ContentFormat = 'string' | 'parts';

const TEXT_KEYS: Readonly<Record<string, string>> = {
  text: 'text',
  input_text: 'text',
  output_text: 'text',
  refusal: 'refusal',
  thinking: 'thinking',
};

/** A message with only the keys that templates receive. */
export type PreparedMessage = Record<string, unknown> & {
  role: string;
  content: string | { type: 'text'; text: string }[];
};

/**
 * Prepares a message as vLLM does: content flattened, tool-call arguments parsed to objects (like Python),
 * reasoning under both of its names, unknown keys dropped. Absent or null content becomes empty text.
 *
 * @param options.keepsWriting keeps digits, floats and key order of arguments; reading takes ten times as long
 * @throws {TokenizerError} `tokenizer.unsupported_content` for a part that is not text, and for arguments nested
 * too deep
 */
export function prepareMessage(
  message: TemplateMessage,
  format: ContentFormat,
  options: { readonly keepsWriting: boolean } = { keepsWriting: true },
): PreparedMessage {
  const texts = contentTexts(message.content);
  // A tool's answer is text in every template, even in those that iterate over a user's parts.
  const isString = format === 'string' || message.role === 'tool';
  const prepared: PreparedMessage = {
    role: message.role,
    content: isString ? texts.join('\n') : texts.map((text) => ({ type: 'text', text })),
  };
  if (typeof message['name'] === 'string') prepared['name'] = message['name'];
  if (message.role === 'tool' && typeof message['tool_call_id'] === 'string')
    prepared['tool_call_id'] = message['tool_call_id'];
  if (message.role === 'developer' && message['tools'] !== undefined)
    prepared['tools'] = writtenTools(message['tools']);
  if (message.role !== 'assistant') return prepared;
  const toolCalls = message['tool_calls'];
  if (Array.isArray(toolCalls) && toolCalls.length > 0)
    prepared['tool_calls'] = toolCalls.map((call) => withParsedArguments(call, options));
  const reasoning = message['reasoning'] ?? message['reasoning_content'];
  if (typeof reasoning === 'string') prepared['reasoning'] = prepared['reasoning_content'] = reasoning;
  return prepared;
}

function writtenTools(tools: unknown): unknown {
  if (typeof tools !== 'string') return tools;
  try {
    return parsePythonValues(tools);
  } catch {
    return tools;
  }
}

export function argumentsLength({ tool_calls: calls }: TemplateMessage): number {
  let length = 0;
  for (const call of Array.isArray(calls) ? (calls as unknown[]) : [])
    if (isRecord(call) && isRecord(call['function']) && typeof call['function']['arguments'] === 'string')
      length += call['function']['arguments'].length;
  return length;
}

/** Content as one text, parts joined by line breaks. @throws {TokenizerError} `tokenizer.unsupported_content` */
export function contentText(content: TemplateMessage['content']): string {
  return contentTexts(content).join('\n');
}

export function contentTexts(content: TemplateMessage['content']): string[] {
  if (content === undefined || content === null) return [];
  if (typeof content === 'string') return [content];
  return content.map(partText).filter((text) => text !== null);
}

function partText(part: ContentPart | string): string | null {
  if (typeof part === 'string') return part;
  const type = part.type ?? 'text';
  const text = part[TEXT_KEYS[type] ?? ''];
  if (TEXT_KEYS[type] === undefined || (part.type === undefined && text === undefined)) {
    const supported = Object.keys(TEXT_KEYS).join(', ');
    const given = part.type ?? Object.keys(part).join('+');
    throw new TokenizerError(
      'tokenizer.unsupported_content',
      `content parts must be one of ${supported}; got ${JSON.stringify(given.slice(0, 100))}`,
    );
  }
  if (text === null || text === undefined) return null;
  if (typeof text === 'string') return text;
  throw new TokenizerError(
    'tokenizer.unsupported_content',
    `the text of a ${type} part must be a string, got ${typeof text}`,
  );
}

function withParsedArguments(call: unknown, options: { readonly keepsWriting: boolean }): unknown {
  if (!isRecord(call) || !isRecord(call['function'])) return call;
  // A copy of the arguments added by SDKs, which templates that write whole calls would include.
  const { parsed_arguments: _copy, ...called } = call['function'];
  return {
    ...call,
    function: { ...called, arguments: parsedArguments(call['function']['arguments'], options) },
  };
}

/**
 * Arguments as the object that Python reads, `{}` for none. Other text, such as half a call, is kept unchanged:
 * a damaged history must not end the conversation.
 *
 * @see parsePythonValues
 */
function parsedArguments(value: unknown, { keepsWriting }: { readonly keepsWriting: boolean }): unknown {
  if (value === undefined || value === null) return {};
  if (typeof value !== 'string') return value;
  if (value.trim() === '') return {};
  const found = readPythonArguments(value);
  if (found === null) return value;
  if (!keepsWriting || !needsPythonValues(found.source)) return found.parsed;
  checkNestingDepth(found.parsed);
  return parsePythonValues(found.source);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
