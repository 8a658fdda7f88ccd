import Type, { type Static } from 'typebox';

import { REQUEST_LIMITS } from '../fields/request-limits.ts';
import { ChatCompletionRequestSchema } from './chat-completion.ts';
import { AnswerModelSchema, FingerprintSchema } from './chat-response.ts';
import { ErrorBodySchema } from '../shape/errors.ts';
import { JsonObjectSchema, nullable, optionalNullable } from '../shape/schema.ts';
import { samplingProperties } from './sampling-properties.ts';

/** POST /v1/messages: a conversation in the form of the Anthropic API. Unknown fields are refused. */

const chat = ChatCompletionRequestSchema.properties;

const BLOCKS =
  'Text, or a list of blocks of the types `text`, `thinking`, `tool_use` and `tool_result` (which may contain `tool_reference`s). Blocks written by other services (`redacted_thinking`, `server_tool_use` with its result, `compaction`) and images in tool results are read as text or left out. The response header `x-trainyard-left-out` counts them.';

/** Content of a block; it depends on the type and is checked with it. */
const BlockSchema = Type.Unsafe<Record<string, unknown> & { type: string }>({
  type: 'object',
  properties: { type: { type: 'string' } },
  required: ['type'],
  additionalProperties: true,
});
export type MessageBlockParam = Static<typeof BlockSchema>;

const ContentSchema = Type.Union([Type.String(), Type.Array(BlockSchema)], { description: BLOCKS });

const MessageParamSchema = Type.Object(
  { role: Type.Enum(['user', 'assistant', 'system']), content: ContentSchema },
  { title: 'MessageParam' },
);
export type MessageParam = Static<typeof MessageParamSchema>;

const MessageToolSchema = Type.Object(
  {
    name: Type.String({ minLength: 1 }),
    description: optionalNullable(Type.String()),
    input_schema: Type.Optional(JsonObjectSchema),
    type: optionalNullable(Type.String({ description: '`custom`. Server-side tools are refused.' })),
    strict: optionalNullable(Type.Boolean()),
    cache_control: optionalNullable(JsonObjectSchema),
    defer_loading: optionalNullable(
      Type.Boolean({ description: 'True: the model does not see the tool until a tool result refers to it.' }),
    ),
    eager_input_streaming: optionalNullable(
      Type.Boolean({ description: 'Has no effect: calls are streamed as they are written.' }),
    ),
    allowed_callers: optionalNullable(Type.Array(Type.String(), { description: 'With `direct` among them.' })),
    input_examples: optionalNullable(
      Type.Array(JsonObjectSchema, { description: 'Examples that the model reads after the description.' }),
    ),
  },
  { title: 'MessageTool' },
);
export type MessageTool = Static<typeof MessageToolSchema>;

/** Fields of `/v1/messages/count_tokens`; the others only shape the reply. */
const promptFields = {
  model: chat.model,
  messages: Type.Array(MessageParamSchema, {
    minItems: 1,
    description: 'The reply continues a final assistant message.',
  }),
  system: optionalNullable(
    Type.Union([Type.String(), Type.Array(BlockSchema)], { description: 'Text, or text blocks.' }),
  ),
  tools: optionalNullable(Type.Array(MessageToolSchema, { description: 'Functions that the model may call.' })),
  tool_choice: optionalNullable(
    Type.Object({
      type: Type.Enum(['auto', 'any', 'tool', 'none']),
      name: optionalNullable(Type.String({ description: 'With `tool`: the one to call.' })),
      disable_parallel_tool_use: optionalNullable(Type.Boolean({ description: 'True keeps only the first call.' })),
    }),
  ),
  thinking: optionalNullable(
    Type.Object(
      {
        type: Type.Enum(['enabled', 'adaptive', 'disabled']),
        budget_tokens: optionalNullable(
          Type.Integer({ minimum: 1, description: 'Maximum number of thinking tokens.' }),
        ),
        display: optionalNullable(
          Type.Enum(['summarized', 'omitted', 'updates', 'highlights'], {
            description:
              '`summarized` returns the whole text. The other values put it into the signature, from which it is read back: models here write neither updates nor highlights.',
          }),
        ),
      },
      { description: 'Default: set by the template of the model.' },
    ),
  ),
  output_config: optionalNullable(
    Type.Object({
      effort: optionalNullable(Type.Enum(['low', 'medium', 'high', 'xhigh', 'max'])),
      format: optionalNullable(
        Type.Object(
          { type: Type.Literal('json_schema'), schema: JsonObjectSchema },
          { description: 'JSON schema that the reply follows.' },
        ),
      ),
    }),
  ),
  output_format: optionalNullable(
    Type.Object(
      { type: Type.Literal('json_schema'), schema: JsonObjectSchema },
      { description: 'Older name of `output_config.format`. Send only one of the two.' },
    ),
  ),
  context_management: optionalNullable(
    Type.Object(
      { edits: optionalNullable(Type.Array(BlockSchema)) },
      { description: '`clear_thinking_20251015` with `keep: "all"`, which has no effect. Other edits are refused.' },
    ),
  ),
  cache_control: optionalNullable(
    Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description: 'Has no effect, also in blocks and tools: every prefix is cached.',
    }),
  ),
};

export const MessagesRequestSchema = Type.Object(
  {
    ...promptFields,
    ...samplingProperties('messages'),
    max_tokens: Type.Integer({ minimum: 1, description: 'Maximum number of tokens of the reply, including thinking.' }),
    stop_sequences: optionalNullable(
      Type.Array(Type.String({ minLength: 1 }), {
        maxItems: REQUEST_LIMITS.stopStrings,
        description: 'Strings that end the reply. They are not part of it.',
      }),
    ),
    stream: optionalNullable(Type.Boolean({ description: 'Stream named events, each with its name as `type`.' })),
    metadata: optionalNullable(
      Type.Object({
        user_id: optionalNullable(Type.String({ description: 'Has no effect, like `user` in chat completions.' })),
      }),
    ),
    service_tier: optionalNullable(Type.String({ description: 'Has no effect: there is only one tier.' })),
    speed: optionalNullable(Type.String({ description: 'Only `standard`: there is one speed.' })),
    inference_geo: optionalNullable(Type.String({ description: 'Only `global`: this service samples the reply.' })),
  },
  { title: 'MessagesRequest' },
);
export type MessagesRequest = Static<typeof MessagesRequestSchema>;

export const CountTokensRequestSchema = Type.Object(promptFields, { title: 'CountTokensRequest' });
export type CountTokensRequest = Static<typeof CountTokensRequestSchema>;

export const CountTokensSchema = Type.Object(
  {
    input_tokens: Type.Integer({ minimum: 0, description: 'Tokens of the rendered prompt.' }),
    context_management: Type.Optional(
      Type.Object(
        { original_input_tokens: Type.Integer({ minimum: 0 }) },
        { description: 'Present if the request had edits. Edits have no effect.' },
      ),
    ),
  },
  { title: 'CountTokens' },
);
export type CountTokens = Static<typeof CountTokensSchema>;

const ReplyBlockSchema = Type.Union([
  Type.Object({ type: Type.Literal('text'), text: Type.String(), citations: Type.Null() }),
  Type.Object({
    type: Type.Literal('thinking'),
    thinking: Type.String(),
    signature: Type.String({
      description:
        '`unsigned`, since clients drop thoughts without a signature; any value is accepted back. Empty until the block ends. If thinking is omitted, it has the text.',
    }),
  }),
  Type.Object({
    type: Type.Literal('tool_use'),
    id: Type.String(),
    name: Type.String(),
    input: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description:
        'Input as the model wrote it. Empty if it is not a JSON object or was cut off. A stream sends any input that starts as an object.',
    }),
  }),
]);
export type MessageReplyBlock = Static<typeof ReplyBlockSchema>;

const StopReasonSchema = Type.Enum(
  ['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'model_context_window_exceeded'],
  { description: '`model_context_window_exceeded`: the context was full before `max_tokens`.' },
);
export type MessageStopReason = Static<typeof StopReasonSchema>;

const MessageUsageSchema = Type.Object(
  {
    input_tokens: Type.Integer({ minimum: 0, description: 'Prompt tokens that were not found in the cache.' }),
    cache_creation_input_tokens: Type.Integer({ minimum: 0, description: 'Always 0: caching a prefix is free.' }),
    cache_read_input_tokens: Type.Integer({ minimum: 0, description: 'Prompt tokens found in the cache.' }),
    output_tokens: Type.Integer({ minimum: 0 }),
    output_tokens_details: nullable(Type.Object({ thinking_tokens: Type.Integer({ minimum: 0 }) }), {
      description: 'Null for a model without reasoning.',
    }),
    service_tier: Type.Literal('standard'),
  },
  { title: 'MessageUsage' },
);
export type MessageUsage = Static<typeof MessageUsageSchema>;

const EditsSchema = Type.Optional(
  Type.Object(
    { applied_edits: Type.Array(BlockSchema, { description: 'Always empty.' }) },
    { description: 'Present if the request had edits.' },
  ),
);

export const MessageSchema = Type.Object(
  {
    id: Type.String({ description: '`msg_` followed by the request id.' }),
    type: Type.Literal('message'),
    role: Type.Literal('assistant'),
    model: AnswerModelSchema,
    content: Type.Array(ReplyBlockSchema),
    stop_reason: nullable(StopReasonSchema, { description: 'Null at the start of a stream.' }),
    stop_sequence: nullable(Type.String()),
    stop_details: Type.Null(),
    container: Type.Null(),
    usage: MessageUsageSchema,
    context_management: EditsSchema,
    system_fingerprint: FingerprintSchema,
    record_id: Type.Optional(
      Type.String({ description: 'Id of the sampling record of a trained model, as in a chat completion.' }),
    ),
  },
  { title: 'Message' },
);
export type Message = Static<typeof MessageSchema>;

const Index = Type.Integer({ minimum: 0, description: 'Index of the block in `content`.' });

export const MessageEventSchema = Type.Union(
  [
    Type.Object({ type: Type.Literal('message_start'), message: MessageSchema }),
    Type.Object({ type: Type.Literal('content_block_start'), index: Index, content_block: ReplyBlockSchema }),
    Type.Object({
      type: Type.Literal('content_block_delta'),
      index: Index,
      delta: Type.Union([
        Type.Object({ type: Type.Literal('text_delta'), text: Type.String() }),
        Type.Object({ type: Type.Literal('thinking_delta'), thinking: Type.String() }),
        Type.Object({ type: Type.Literal('input_json_delta'), partial_json: Type.String() }),
        Type.Object({ type: Type.Literal('signature_delta'), signature: Type.String() }),
      ]),
    }),
    Type.Object({ type: Type.Literal('content_block_stop'), index: Index }),
    Type.Object({
      type: Type.Literal('message_delta'),
      delta: Type.Object({
        stop_reason: StopReasonSchema,
        stop_sequence: nullable(Type.String()),
        stop_details: Type.Null(),
        container: Type.Null(),
        record_id: Type.Optional(Type.String()),
      }),
      usage: MessageUsageSchema,
      context_management: EditsSchema,
    }),
    Type.Object({ type: Type.Literal('message_stop') }),
  ],
  { title: 'MessageEvent' },
);
export type MessageEvent = Static<typeof MessageEventSchema>;

const MESSAGES_ERROR_TYPES = [
  'invalid_request_error',
  'authentication_error',
  'permission_error',
  'not_found_error',
  'request_too_large',
  'rate_limit_error',
  'overloaded_error',
  'api_error',
] as const;

/** Error in the form of the Anthropic API, with the error fields of the other routes. */
export const MessagesErrorSchema = Type.Object(
  {
    type: Type.Literal('error'),
    error: Type.Object({
      type: Type.Enum(MESSAGES_ERROR_TYPES, { description: 'Class of the error.' }),
      message: Type.String({ description: 'The problem, the limit, the value and the next step.' }),
      param: nullable(Type.String(), { description: 'Field with the error.' }),
      code: Type.String({ description: 'Stable code of the error.' }),
      details: Type.Optional(
        Type.Object(
          {
            error_code: Type.Literal('thread_unsupported_request'),
            unsupported: Type.Array(Type.String(), { description: 'Names of the missing fields.' }),
          },
          { description: 'For `thread`: its clients then send the whole conversation instead.' },
        ),
      ),
    }),
    detail: ErrorBodySchema.properties.detail,
    request_id: Type.String(),
  },
  { title: 'MessagesError' },
);
export type MessagesError = Static<typeof MessagesErrorSchema>;
export type MessagesErrorType = (typeof MESSAGES_ERROR_TYPES)[number];
