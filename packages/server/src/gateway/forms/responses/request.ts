import {
  asksForNothing,
  type ChatCompletionRequest,
  type CountInputTokensRequest,
  CountInputTokensRequestSchema,
  namesFrom,
  quoting,
  RESPONSES_CHAT_FIELDS,
  type ResponsesRequest,
  ResponsesRequestSchema,
} from '@trainyard/protocol';

import { conflict, type FormNames, unsupported } from '../shared/conflict.ts';
import { refuseOtherFields } from '../shared/refuse-other-fields.ts';
import { LeftOut, reporting } from '../../../seams/chat/left-out.ts';
import { toChatMessages } from './items.ts';
import { toTools } from './tools.ts';

export const RESPONSES_NAMES = namesFrom({
  messages: 'input',
  max_tokens: 'max_output_tokens',
  max_completion_tokens: 'max_output_tokens',
  response_format: 'text',
  'response_format.json_schema.schema': 'text.format.schema',
  reasoning_effort: 'reasoning',
  truncate_prompt_tokens: 'truncation',
  'tool_choice.function.name': 'tool_choice.name',
} satisfies FormNames);

/** Reasons why known fields of the form are not supported. */
const REASONS: Readonly<Record<string, string>> = {
  prompt: 'prompts are not kept: send `instructions` and `input`',
  context_management: 'conversations are used exactly as sent',
  moderation: 'there is no moderation model',
};

const LOGPROBS = 'message.output_text.logprobs';
export const CARRIED_REASONING = 'reasoning.encrypted_content';
const INCLUDABLE = [
  LOGPROBS,
  CARRIED_REASONING,
  // Contents that answers here never have, so these have no effect.
  'code_interpreter_call.outputs',
  'computer_call_output.output.image_url',
  'file_search_call.results',
  'message.input_image.image_url',
  'web_search_call.action.sources',
  'web_search_call.results',
];

/**
 * Converts a request of this form to a chat.
 * @param body passed the schema
 * @throws {RequestError} `request.unsupported`, `request.conflict`, `request.invalid`, with fields of `body`
 */
export function fromResponsesRequest(body: ResponsesRequest): ChatCompletionRequest {
  refuseOtherFields(body, Object.keys(ResponsesRequestSchema.properties), null, REASONS);
  refuseOtherFields(body.text ?? {}, ['format', 'verbosity'], 'text');
  refuseOtherFields(body.reasoning ?? {}, ['effort', 'summary', 'generate_summary', 'context', 'mode'], 'reasoning');
  if ((body.reasoning?.mode ?? 'standard') !== 'standard')
    throw unsupported(
      'reasoning.mode',
      quoting`only standard is supported, got ${JSON.stringify(body.reasoning?.mode)}`,
    );
  if (!body.stream && !Object.values(body.stream_options ?? {}).every(asksForNothing))
    throw conflict('stream_options', '`stream_options` is only allowed with `stream: true`');
  refuseOtherFields(body.stream_options ?? {}, ['include_obfuscation'], 'stream_options');
  if (body.stream_options?.include_obfuscation === true)
    throw unsupported('stream_options.include_obfuscation', 'events are not padded');
  checkInclude(body.include ?? []);
  const leftOut = new LeftOut();
  const shared = Object.fromEntries(
    RESPONSES_CHAT_FIELDS.flatMap((name) => (body[name] === undefined ? [] : [[name, body[name]]])),
  );
  const top = body.top_logprobs ?? 0;
  const { effort = null } = body.reasoning ?? {};
  const chat = {
    ...shared,
    model: body.model ?? null,
    messages: [
      ...(body.instructions ? [{ role: 'system', content: body.instructions }] : []),
      ...(typeof body.input === 'string'
        ? [{ role: 'user', content: body.input }]
        : toChatMessages(body.input ?? [], leftOut)),
    ],
    max_completion_tokens: body.max_output_tokens ?? null,
    logprobs: top > 0 || (body.include?.includes(LOGPROBS) ?? false),
    top_logprobs: top,
    ...(effort === null ? {} : { reasoning_effort: effort }),
    ...(body.truncation === 'auto' ? { truncate_prompt_tokens: -1 } : {}),
    ...toTools(body),
    ...toFormat(body),
  };
  return reporting(chat, leftOut);
}

/** @throws {RequestError} for an unknown name */
export function checkInclude(names: readonly string[]): void {
  const other = names.find((name) => !INCLUDABLE.includes(name));
  if (other !== undefined)
    throw unsupported('include', quoting`supported are ${INCLUDABLE.join(', ')}, got ${JSON.stringify(other)}`);
}

/** Converts the prompt of this form to that of a chat. @throws as {@link fromResponsesRequest} */
export function toCountedResponse(body: CountInputTokensRequest): ChatCompletionRequest {
  refuseOtherFields(body, Object.keys(CountInputTokensRequestSchema.properties), null, REASONS);
  return fromResponsesRequest(body);
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
