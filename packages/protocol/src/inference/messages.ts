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
  'Text, or a list of blocks of the types `text`, `thinking`, `tool_use` and `tool_result`, the last of which may have `tool_reference`s. Blocks that other services write (`redacted_thinking`, `server_tool_use` with its result, `compaction`) and pictures in results of tools are read as text or left out: `x-trainyard-left-out` of the answer counts them.';

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
    type: optionalNullable(Type.String({ description: '`custom`; tools that a server runs are refused.' })),
    strict: optionalNullable(Type.Boolean()),
    cache_control: optionalNullable(JsonObjectSchema),
    defer_loading: optionalNullable(
      Type.Boolean({ description: 'True: the model is not shown it before the result of a tool refers to it.' }),
    ),
    eager_input_streaming: optionalNullable(
      Type.Boolean({ description: 'Has no effect: calls are streamed as they are written.' }),
    ),
    allowed_callers: optionalNullable(Type.Array(Type.String(), { description: 'With `direct` among them.' })),
    input_examples: optionalNullable(
      Type.Array(JsonObjectSchema, { description: 'The model reads them behind the description.' }),
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
    description: 'A last message of the assistant is left open, and the reply goes on from there.',
  }),
  system: optionalNullable(
    Type.Union([Type.String(), Type.Array(BlockSchema)], { description: 'Text, or text blocks.' }),
  ),
  tools: optionalNullable(Type.Array(MessageToolSchema, { description: 'Functions that the model may call.' })),
  tool_choice: optionalNullable(
    Type.Object({
      type: Type.Enum(['auto', 'any', 'tool', 'none']),
      name: optionalNullable(Type.String({ description: 'With `tool`: the one to call.' })),
      disable_parallel_tool_use: optionalNullable(Type.Boolean({ description: 'True keeps the first call only.' })),
    }),
  ),
  thinking: optionalNullable(
    Type.Object(
      {
        type: Type.Enum(['enabled', 'adaptive', 'disabled']),
        budget_tokens: optionalNullable(Type.Integer({ minimum: 1, description: 'The most tokens of thinking.' })),
        display: optionalNullable(
          Type.Enum(['summarized', 'omitted', 'updates', 'highlights'], {
            description:
              '`summarized` gives the whole text; with the others it is in the signature, and read back from there: models here write no updates and no highlights next to their thoughts.',
          }),
        ),
      },
      { description: 'Default: as the template of the model has it.' },
    ),
  ),
  output_config: optionalNullable(
    Type.Object({
      effort: optionalNullable(Type.Enum(['low', 'medium', 'high', 'xhigh', 'max'])),
      format: optionalNullable(
        Type.Object(
          { type: Type.Literal('json_schema'), schema: JsonObjectSchema },
          { description: 'The reply is JSON of this schema.' },
        ),
      ),
    }),
  ),
  output_format: optionalNullable(
    Type.Object(
      { type: Type.Literal('json_schema'), schema: JsonObjectSchema },
      { description: 'The older name of `output_config.format`; not together with it.' },
    ),
  ),
  context_management: optionalNullable(
    Type.Object(
      { edits: optionalNullable(Type.Array(BlockSchema)) },
      { description: '`clear_thinking_20251015` with `keep: "all"`, which changes nothing; other edits are refused.' },
    ),
  ),
  cache_control: optionalNullable(
    Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description: 'Every prefix is kept in memory anyway, so this asks for nothing more; in blocks and tools too.',
    }),
  ),
};

export const MessagesRequestSchema = Type.Object(
  {
    ...promptFields,
    ...samplingProperties('messages'),
    max_tokens: Type.Integer({ minimum: 1, description: 'The most tokens of the reply, thinking included.' }),
    stop_sequences: optionalNullable(
      Type.Array(Type.String({ minLength: 1 }), {
        maxItems: REQUEST_LIMITS.stopStrings,
        description: 'Texts that end the reply; they are left out of it.',
      }),
    ),
    stream: optionalNullable(Type.Boolean({ description: 'Named events, each with its name as `type`.' })),
    metadata: optionalNullable(
      Type.Object({
        user_id: optionalNullable(Type.String({ description: 'Changes nothing here, as `user` in chats.' })),
      }),
    ),
    service_tier: optionalNullable(Type.String({ description: 'Has no effect: there is one tier.' })),
    speed: optionalNullable(Type.String({ description: '`standard`: there is one speed.' })),
    inference_geo: optionalNullable(Type.String({ description: '`global`: the reply comes from this machine.' })),
  },
  { title: 'MessagesRequest' },
);
export type MessagesRequest = Static<typeof MessagesRequestSchema>;

export const CountTokensRequestSchema = Type.Object(promptFields, { title: 'CountTokensRequest' });
export type CountTokensRequest = Static<typeof CountTokensRequestSchema>;

export const CountTokensSchema = Type.Object(
  {
    input_tokens: Type.Integer({ minimum: 0, description: 'Of the rendered prompt.' }),
    context_management: Type.Optional(
      Type.Object(
        { original_input_tokens: Type.Integer({ minimum: 0 }) },
        { description: 'Where the request had edits, which change nothing.' },
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
        '`unsigned`, and empty until the block ends: clients drop thoughts without a signature, and any is read back. Where thinking is omitted it has the text.',
    }),
  }),
  Type.Object({
    type: Type.Literal('tool_use'),
    id: Type.String(),
    name: Type.String(),
    input: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      description:
        'As the model wrote it. Empty where that is no JSON object, or was cut off before it was complete; a stream tells what begins as one.',
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
    input_tokens: Type.Integer({ minimum: 0, description: 'Of the prompt, without those found in memory.' }),
    cache_creation_input_tokens: Type.Integer({ minimum: 0, description: 'Always 0: keeping a prefix costs nothing.' }),
    cache_read_input_tokens: Type.Integer({ minimum: 0, description: 'Of the prompt, found in memory.' }),
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
    { description: 'Where the request had edits.' },
  ),
);

export const MessageSchema = Type.Object(
  {
    id: Type.String({ description: '`msg_` and the request id.' }),
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
      Type.String({ description: 'As in a chat completion: where what was sampled of a trained model is kept.' }),
    ),
  },
  { title: 'Message' },
);
export type Message = Static<typeof MessageSchema>;

const Index = Type.Integer({ minimum: 0, description: 'Which block of `content`.' });

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
      type: Type.Enum(MESSAGES_ERROR_TYPES, { description: 'The class of the error.' }),
      message: Type.String({ description: 'What was wrong, the limit, the value and the next step.' }),
      param: nullable(Type.String(), { description: 'The field at fault.' }),
      code: Type.String({ description: 'A stable name of the fault.' }),
      details: Type.Optional(
        Type.Object(
          {
            error_code: Type.Literal('thread_unsupported_request'),
            unsupported: Type.Array(Type.String(), { description: 'The fields that are not there.' }),
          },
          { description: 'For `thread`: what its clients go by when they send the whole conversation instead.' },
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
