import {
  type ChatCompletionRequest,
  type ChatMessage,
  namesFrom,
  quoting,
  type ResponseInputItem,
  RESPONSES_CHAT_FIELDS,
  type ResponsesRequest,
  ResponsesRequestSchema,
  type ResponseTool,
} from '@trainyard/protocol';

import { conflict, type FormNames, invalidAt, unsupported } from '../conflict.ts';
import { refuseOtherFields } from '../refuse-other-fields.ts';

/** Names in this form for the fields of a chat. */
export const RESPONSES_NAMES = namesFrom({
  messages: 'input',
  max_tokens: 'max_output_tokens',
  max_completion_tokens: 'max_output_tokens',
  response_format: 'text',
  'response_format.json_schema.schema': 'text.format.schema',
  reasoning_effort: 'reasoning',
  'tool_choice.function.name': 'tool_choice.name',
} satisfies FormNames);

const STATELESS = 'nothing is kept from one request to the next: send the whole conversation as `input`';
const NO_TOOLS = 'no tools are run here';
/** Why known fields of the form are not there. */
const REASONS: Readonly<Record<string, string>> = {
  previous_response_id: STATELESS,
  conversation: STATELESS,
  prompt: STATELESS,
  max_tool_calls: NO_TOOLS,
  context_management: 'the conversation is taken as it is sent',
  moderation: 'no second model judges replies',
};

const LOGPROBS = 'message.output_text.logprobs';
const INCLUDABLE = [LOGPROBS, 'reasoning.encrypted_content'];

/**
 * A request of this form as a chat.
 *
 * @param body passed the schema
 * @throws {RequestError} `request.unsupported`, `request.conflict`, `request.invalid`, naming fields of `body`
 */
export function fromResponsesRequest(body: ResponsesRequest): ChatCompletionRequest {
  refuseOtherFields(body, Object.keys(ResponsesRequestSchema.properties), null, REASONS);
  if (body.store === true) throw unsupported('store', `${STATELESS}, with \`store: false\``);
  refuseOtherFields(body.text ?? {}, ['format', 'verbosity'], 'text');
  refuseOtherFields(body.reasoning ?? {}, ['effort', 'summary', 'generate_summary'], 'reasoning');
  if (body.stream_options && !body.stream)
    throw conflict('stream_options', '`stream_options` is only allowed with `stream: true`');
  refuseOtherFields(body.stream_options ?? {}, ['include_obfuscation'], 'stream_options');
  if (body.stream_options?.include_obfuscation === true)
    throw unsupported('stream_options.include_obfuscation', 'events have the size of what they tell');
  const other = body.include?.find((name) => !INCLUDABLE.includes(name));
  if (other !== undefined)
    throw unsupported('include', quoting`known here are ${INCLUDABLE.join(', ')}, got ${JSON.stringify(other)}`);
  const shared = Object.fromEntries(
    RESPONSES_CHAT_FIELDS.flatMap((name) => (body[name] === undefined ? [] : [[name, body[name]]])),
  );
  const top = body.top_logprobs ?? 0;
  const { effort = null } = body.reasoning ?? {};
  return {
    ...shared,
    model: body.model ?? null,
    messages: [
      ...(body.instructions ? [{ role: 'system', content: body.instructions }] : []),
      ...(typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : toChatMessages(body.input)),
    ],
    max_completion_tokens: body.max_output_tokens ?? null,
    logprobs: top > 0 || (body.include?.includes(LOGPROBS) ?? false),
    top_logprobs: top,
    ...(effort === null ? {} : { reasoning_effort: effort }),
    ...toTools(body),
    ...toFormat(body),
  };
}

function toTools({ tools = null, tool_choice: choice = null }: ResponsesRequest): Partial<ChatCompletionRequest> {
  const all = (tools ?? []).map(toChatTool);
  if (choice === null || typeof choice === 'string')
    return { ...(all.length === 0 ? {} : { tools: all }), ...(choice === null ? {} : { tool_choice: choice }) };
  if (choice.type === 'function') {
    refuseOtherFields(choice, ['type', 'name'], 'tool_choice');
    if (choice.name === undefined) throw invalidAt('tool_choice.name', 'Field required', 'missing');
    return { tools: all, tool_choice: { type: 'function', function: { name: choice.name } } };
  }
  refuseOtherFields(choice, ['type', 'mode', 'tools'], 'tool_choice');
  // The model is shown those alone, so it can call no other.
  const names = new Set((choice.tools ?? []).map((tool) => tool['name']));
  const allowed = all.filter((tool) => names.has(tool.function.name));
  if (allowed.length !== names.size || names.size === 0)
    throw conflict('tool_choice.tools', '`tool_choice.tools` must name functions that are among `tools`');
  return { tools: allowed, tool_choice: choice.mode ?? 'auto' };
}

function toChatTool(tool: ResponseTool, index: number): NonNullable<ChatCompletionRequest['tools']>[number] {
  const place = `tools.${index}`;
  if (tool.type !== 'function')
    throw unsupported(
      `${place}.type`,
      quoting`${NO_TOOLS}, only functions are called, got ${JSON.stringify(tool.type)}`,
    );
  refuseOtherFields(tool, ['type', 'name', 'description', 'parameters', 'strict'], place);
  const { name, description = null, parameters = null, strict = null } = tool;
  if (name === undefined) throw invalidAt(`${place}.name`, 'Field required', 'missing');
  return { type: 'function', function: { name, description, parameters, strict } };
}

function toFormat({ text }: ResponsesRequest): Partial<ChatCompletionRequest> {
  const format = text?.format ?? null;
  if (format === null || format.type === 'text') return {};
  if (format.type === 'json_object') return { response_format: { type: 'json_object' } };
  refuseOtherFields(format, ['type', 'name', 'description', 'schema', 'strict'], 'text.format');
  const { name, description = null, schema = null, strict = null } = format;
  return {
    response_format: { type: 'json_schema', json_schema: { name: name ?? 'output', description, schema, strict } },
  };
}

/**
 * Joins the items of one assistant turn, which are several here, into one chat message.
 * @throws {RequestError} as {@link fromResponsesRequest}
 */
export function toChatMessages(items: readonly ResponseInputItem[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let turn: ChatMessage | null = null;
  const assistantTurn = (): ChatMessage => {
    if (turn !== null) return turn;
    turn = { role: 'assistant', content: null };
    messages.push(turn);
    return turn;
  };
  items.forEach((item, index) => {
    const place = `input.${index}`;
    const type = item['type'] ?? (item['role'] === undefined ? undefined : 'message');
    switch (type) {
      case 'message': {
        refuseOtherFields(item, ['type', 'role', 'content', 'id', 'status', 'phase'], place);
        const role = stringOf(item, 'role', place);
        const content = toContent(item['content'], `${place}.content`);
        if (role !== 'assistant') {
          turn = null;
          messages.push({ role, content });
          break;
        }
        // Text behind text, or behind calls, is another message.
        if (turn !== null && (turn.content !== null || turn.tool_calls)) turn = null;
        assistantTurn().content = content;
        break;
      }
      case 'reasoning': {
        refuseOtherFields(item, ['type', 'id', 'summary', 'content', 'encrypted_content', 'status'], place);
        if (item['encrypted_content'] !== undefined && item['encrypted_content'] !== null)
          throw unsupported(`${place}.encrypted_content`, 'nothing here was encrypted: send `content`');
        turn = null;
        const parts = item['content'] ?? item['summary'] ?? [];
        const content = toContent(parts, `${place}.content`);
        assistantTurn().reasoning = typeof content === 'string' ? content : content.map(({ text }) => text).join('\n');
        break;
      }
      case 'function_call': {
        refuseOtherFields(item, ['type', 'id', 'call_id', 'name', 'arguments', 'status'], place);
        const called = { name: stringOf(item, 'name', place), arguments: stringOf(item, 'arguments', place) };
        const call = { id: stringOf(item, 'call_id', place), type: 'function' as const, function: called };
        const message = assistantTurn();
        message.tool_calls = [...(message.tool_calls ?? []), call];
        break;
      }
      case 'function_call_output': {
        refuseOtherFields(item, ['type', 'id', 'call_id', 'output', 'status'], place);
        turn = null;
        const content = toContent(item['output'], `${place}.output`);
        messages.push({ role: 'tool', tool_call_id: stringOf(item, 'call_id', place), content });
        break;
      }
      default:
        throw unsupported(
          `${place}.type`,
          quoting`known here are message, function_call, function_call_output and reasoning, got ${JSON.stringify(type ?? null)}`,
        );
    }
  });
  return messages;
}

const TEXT_TYPES = new Set(['input_text', 'output_text', 'text', 'reasoning_text', 'summary_text']);

function toContent(content: unknown, place: string): string | { type: 'text'; text: string }[] {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) throw invalidAt(place, 'Input should be a valid string or list', 'string_type');
  return content.map((part: unknown, index) => {
    const partPlace = `${place}.${index}`;
    if (typeof part !== 'object' || part === null)
      throw invalidAt(partPlace, 'Input should be a valid dictionary', 'dict_type');
    const { type, ...fields } = part as Record<string, unknown>;
    if (type === 'refusal') return { type: 'text' as const, text: stringOf(fields, 'refusal', partPlace) };
    if (typeof type !== 'string' || !TEXT_TYPES.has(type))
      throw unsupported(
        `${partPlace}.type`,
        quoting`the served models read text, got a part of the type ${JSON.stringify(type ?? null)}`,
      );
    // What an answer tells beside its text comes back with it.
    refuseOtherFields(fields, ['text', 'annotations', 'logprobs'], partPlace);
    return { type: 'text' as const, text: stringOf(fields, 'text', partPlace) };
  });
}

function stringOf(value: Readonly<Record<string, unknown>>, name: string, place: string): string {
  const member = value[name];
  if (typeof member === 'string') return member;
  throw member === undefined
    ? invalidAt(`${place}.${name}`, 'Field required', 'missing')
    : invalidAt(`${place}.${name}`, 'Input should be a valid string', 'string_type');
}
