import type {
  ChatCompletionRequest,
  ChatMessage,
  CountTokensRequest,
  MessageBlockParam,
  MessageParam,
  MessagesRequest,
} from '@trainyard/protocol';
import { CountTokensRequestSchema, MessagesRequestSchema, namesFrom, quoting } from '@trainyard/protocol';

import { isObject } from '../../../seams/json/is-object.ts';
import { sourceTextOf } from '../../../seams/json/source-texts.ts';
import { conflict, type FormNames, invalidAt, unsupported } from '../shared/conflict.ts';
import { refuseOtherFields } from '../shared/refuse-other-fields.ts';
import { stringOf } from '../shared/string-of.ts';
import { carriedReasoning } from '../shared/carried-reasoning.ts';
import { LeftOut, leftOutOf, reporting } from '../../../seams/chat/left-out.ts';
import { readableMessages } from './foreign-blocks.ts';
import { toChatTools, toToolChoice } from './tools.ts';

export const MESSAGES_NAMES = namesFrom({
  stop: 'stop_sequences',
  response_format: 'output_config',
  'response_format.json_schema.schema': 'output_config.format.schema',
  reasoning_effort: 'output_config',
  thinking_token_budget: 'thinking',
  parallel_tool_calls: 'tool_choice',
  add_generation_prompt: 'messages',
  continue_final_message: 'messages',
  'tool_choice.function.name': 'tool_choice.name',
} satisfies FormNames);

const ONE_REPLY = 'fallback models are not supported';
/** Reasons why known fields of the form are not supported. */
const REASONS: Readonly<Record<string, string>> = {
  container: 'this service runs no tools',
  mcp_servers: 'this service runs no tools',
  diagnostics: 'see the usage for cached tokens',
  thread: 'no state is kept between requests: send the whole conversation as `messages`',
  user_profile_id: ONE_REPLY,
  workspace_id: ONE_REPLY,
};

/**
 * Converts a message request to a chat.
 * @param body passed the schema
 * @throws {RequestError} `request.unsupported`, `request.conflict`, `request.invalid`, with fields of `body`
 */
export function toChatRequest(body: MessagesRequest): ChatCompletionRequest {
  refuseOtherFields(body, Object.keys(MessagesRequestSchema.properties), null, REASONS);
  const prompt = toPrompt(body);
  const { type: thinking, budget_tokens: budget = null } = body.thinking ?? {};
  if (budget !== null && thinking !== 'enabled')
    throw conflict('thinking.budget_tokens', '`thinking.budget_tokens` is only allowed with `type: enabled`');
  refuseOtherFields(body.metadata ?? {}, ['user_id'], 'metadata');
  // Fields with one value that has no effect.
  if ((body.speed ?? 'standard') !== 'standard') throw unsupported('speed', ONE_REPLY);
  if ((body.inference_geo ?? 'global') !== 'global') throw unsupported('inference_geo', ONE_REPLY);
  const format = formatOf(body);
  return reporting(
    {
      ...prompt,
      max_tokens: body.max_tokens,
      stop: body.stop_sequences ?? null,
      stream: body.stream ?? false,
      temperature: body.temperature ?? null,
      top_p: body.top_p ?? null,
      top_k: body.top_k ?? null,
      user: body.metadata?.user_id ?? null,
      thinking_token_budget: budget,
      ...(format === null
        ? {}
        : { response_format: { type: 'json_schema', json_schema: { name: 'output', schema: format.schema } } }),
    },
    leftOutOf(prompt),
  );
}

function formatOf({ output_config: config, output_format: older = null }: CountTokensRequest) {
  const format = config?.format ?? null;
  if (format !== null && older !== null)
    throw conflict('output_format', '`output_format` is the older name of `output_config.format`: send one of them');
  return format ?? older;
}

/** Converts the prompt of a message request to that of a chat. @throws as {@link toChatRequest} */
export function toCountedChat(body: CountTokensRequest): ChatCompletionRequest {
  refuseOtherFields(body, Object.keys(CountTokensRequestSchema.properties), null, REASONS);
  return toPrompt(body);
}

function toPrompt(body: CountTokensRequest): ChatCompletionRequest {
  const { tools = null, thinking = null, output_config: output = null, context_management: management = null } = body;
  refuseOtherEdits(management);
  refuseOtherFields(thinking ?? {}, ['type', 'budget_tokens', 'display'], 'thinking');
  refuseOtherFields(output ?? {}, ['effort', 'format'], 'output_config');
  const leftOut = new LeftOut();
  const readable = readableMessages(body.messages, leftOut);
  const turns = readable.flatMap(({ message, index }) => toChatMessages(message, index));
  const messages = [...systemMessages(body.system ?? null), ...turns];
  const isOpen = readable.at(-1)?.message.role === 'assistant';
  if (isOpen && (messages.at(-1)?.tool_calls ?? []).length > 0)
    throw conflict(
      'messages',
      '`messages` ends with tool calls of the assistant: send their results, or end with its text',
    );
  const chat: ChatCompletionRequest = {
    messages,
    model: body.model ?? null,
    ...(tools === null || tools.length === 0 ? {} : { tools: toChatTools(tools, body.messages) }),
    ...toToolChoice(body),
    ...(thinking === null ? {} : { chat_template_kwargs: { enable_thinking: thinking.type !== 'disabled' } }),
    ...(output?.effort ? { reasoning_effort: output.effort } : {}),
    // The reply continues a final assistant message.
    ...(isOpen ? { add_generation_prompt: false, continue_final_message: true } : {}),
  };
  return reporting(chat, leftOut);
}

/** Accepts only edits without effect on the conversation. @throws as {@link toChatRequest} for others */
function refuseOtherEdits(management: CountTokensRequest['context_management'] | null): void {
  refuseOtherFields(management ?? {}, ['edits'], 'context_management');
  management?.edits?.forEach((edit, index) => {
    const place = `context_management.edits.${index}`;
    const { type, keep = null } = edit;
    const keepsAll = keep === 'all' || (isObject(keep) && keep['type'] === 'all');
    if (type !== 'clear_thinking_20251015' || !keepsAll)
      throw unsupported(
        place,
        quoting`the conversation is used as sent: only \`clear_thinking_20251015\` with \`keep: "all"\` is supported, got ${JSON.stringify(type)}`,
      );
    refuseOtherFields(edit, ['type', 'keep'], place);
  });
}

function systemMessages(system: MessagesRequest['system'] | null): ChatMessage[] {
  if (system === null || system === undefined) return [];
  return systemMessage(system, 'system');
}

/** Empty if nothing of it is for the model. */
function systemMessage(content: string | MessageBlockParam[], place: string): ChatMessage[] {
  if (typeof content === 'string') return [{ role: 'system', content }];
  const texts = content
    .map((block, index) => ({ type: 'text' as const, text: toText(block, `${place}.${index}`) }))
    .filter(({ text }) => !BILLING.test(text));
  return texts.length === 0 && content.length > 0 ? [] : [{ role: 'system', content: texts }];
}

/**
 * Billing line that Claude Code writes at the start of its prompt. It differs between conversations, so no
 * two prompts would share a prefix: it is dropped, as in vLLM.
 */
const BILLING = /^x-anthropic-billing-header:/;

/** One message may contain results of several calls, which are separate messages in a chat. */
function toChatMessages({ role, content }: MessageParam, index: number): ChatMessage[] {
  const place = `messages.${index}.content`;
  if (typeof content === 'string') return [{ role, content }];
  if (role === 'assistant') return [toAssistantMessage(content, place)];
  if (role === 'system') return systemMessage(content, place);
  const messages: ChatMessage[] = [];
  let texts: string[] = [];
  const endTexts = () => {
    if (texts.length > 0) messages.push({ role, content: texts.map((text) => ({ type: 'text', text })) });
    texts = [];
  };
  content.forEach((block, blockIndex) => {
    const blockPlace = `${place}.${blockIndex}`;
    if (block.type === 'tool_result' && role === 'user') {
      endTexts();
      messages.push(toToolMessage(block, blockPlace));
    } else texts.push(toText(block, blockPlace));
  });
  endTexts();
  return messages.length > 0 ? messages : [{ role, content: '' }];
}

/** @throws {RequestError} as {@link toChatRequest} */
export function toAssistantMessage(blocks: readonly MessageBlockParam[], place: string): ChatMessage {
  const texts: string[] = [];
  const thoughts: string[] = [];
  const calls: NonNullable<ChatMessage['tool_calls']> = [];
  blocks.forEach((block, index) => {
    const blockPlace = `${place}.${index}`;
    switch (block.type) {
      case 'thinking':
        refuseOtherFields(block, ['type', 'thinking', 'signature'], blockPlace);
        // A thought omitted from the answer comes back in its signature.
        thoughts.push(...[stringOf(block, 'thinking', blockPlace) || omittedThought(block)].filter(Boolean));
        break;
      case 'tool_use': {
        refuseOtherFields(block, ['type', 'id', 'name', 'input', 'caller', 'cache_control'], blockPlace);
        const { input } = block;
        if (typeof input !== 'object' || input === null || Array.isArray(input))
          throw invalidAt(`${blockPlace}.input`, 'Input should be a valid dictionary', 'dict_type');
        const called = {
          name: stringOf(block, 'name', blockPlace),
          arguments: sourceTextOf(input) ?? JSON.stringify(input),
        };
        calls.push({ id: stringOf(block, 'id', blockPlace), type: 'function', function: called });
        break;
      }
      default:
        texts.push(toText(block, blockPlace, COPIED));
    }
  });
  return {
    role: 'assistant',
    content: texts.length === 0 ? null : texts.map((text) => ({ type: 'text', text })),
    ...(thoughts.length === 0 ? {} : { reasoning: thoughts.join('\n') }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function omittedThought({ signature }: MessageBlockParam): string {
  return typeof signature === 'string' ? (carriedReasoning(signature) ?? '') : '';
}

function toToolMessage(block: MessageBlockParam, place: string): ChatMessage {
  refuseOtherFields(block, ['type', 'tool_use_id', 'content', 'is_error', 'cache_control', 'caller'], place);
  const { content = '' } = block;
  const isText = typeof content === 'string';
  if (!isText && !Array.isArray(content))
    throw invalidAt(`${place}.content`, 'Input should be a valid string or list', 'string_type');
  const parts = isText
    ? [content]
    : (content as MessageBlockParam[]).map((part, i) => toResultText(part, `${place}.content.${i}`));
  const text = parts.join('\n');
  return {
    role: 'tool',
    tool_call_id: stringOf(block, 'tool_use_id', place),
    // Templates have no failed results, so the text reports the failure.
    content: block['is_error'] === true ? `Error: ${text}` : text,
  };
}

/** A found tool is part of the prompt from here on; its result names it. */
function toResultText(part: MessageBlockParam, place: string): string {
  if (part?.type !== 'tool_reference') return toText(part, place);
  refuseOtherFields(part, ['type', 'tool_name', 'cache_control'], place);
  return `Tool found: ${stringOf(part, 'tool_name', place)}`;
}

/**
 * Copies that SDKs add to the text of an answer, and citations in another service's text: clients send them
 * back.
 */
const COPIED = ['citations', 'parsed', 'parsed_output'];

/** @param others members without effect */
function toText(block: MessageBlockParam, place: string, others: readonly string[] = []): string {
  if (typeof block !== 'object' || block === null || block.type !== 'text')
    throw unsupported(
      `${place}.type`,
      quoting`the served models read only text, got a block of type ${JSON.stringify(block?.type ?? null)}`,
    );
  refuseOtherFields(block, ['type', 'text', 'cache_control', ...others], place);
  return stringOf(block, 'text', place);
}
