import Type, { type Static } from 'typebox';

import { ChatCompletionRequestSchema, MAX_TOP_LOGPROBS } from './chat-completion.ts';
import { AnswerModelSchema, CreatedSchema, FingerprintSchema } from './chat-response.ts';
import { TokenLogprobSchema } from './logprobs.ts';
import { JsonObjectSchema, nullable, optionalNullable } from '../shape/schema.ts';
import { samplingFieldsOf, samplingProperties } from './sampling-properties.ts';

/** POST /v1/responses: a conversation in the form of OpenAI's newer API. Unknown fields are refused. */

const chat = ChatCompletionRequestSchema.properties;

/** Content of an item; it depends on the type and is checked with it. */
export const ResponseInputItemSchema = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: true,
});
const ItemSchema = ResponseInputItemSchema;
export type ResponseInputItem = Static<typeof ItemSchema>;

const ConversationIdSchema = Type.Object({ id: Type.String({ minLength: 1 }) });

export const ResponseToolSchema = Type.Object(
  {
    type: Type.String({
      description:
        '`function`, `custom` (its input is text), or a `namespace` with `tools` of these two types. Server-side tools are refused.',
    }),
    name: Type.Optional(Type.String({ minLength: 1 })),
    description: optionalNullable(Type.String()),
    parameters: optionalNullable(JsonObjectSchema),
    strict: optionalNullable(Type.Boolean()),
    format: optionalNullable(
      Type.Object(
        { type: Type.String() },
        { description: 'Input format of a custom tool. Only `text`; grammars are refused.' },
      ),
    ),
    tools: optionalNullable(Type.Array(ItemSchema, { description: 'Tools of a namespace.' })),
    allowed_callers: optionalNullable(Type.Array(Type.String(), { description: 'With `direct` among them.' })),
    defer_loading: optionalNullable(Type.Boolean({ description: 'Only false: the model sees all tools.' })),
    async: optionalNullable(Type.Boolean({ description: 'Only false: the model waits for the result of a call.' })),
    output_schema: optionalNullable(JsonObjectSchema),
  },
  { title: 'ResponseTool' },
);
export type ResponseTool = Static<typeof ResponseToolSchema>;

const ToolChoiceSchema = Type.Union([
  Type.Enum(['none', 'auto', 'required']),
  Type.Object({
    type: Type.Enum(['function', 'custom', 'allowed_tools']),
    name: Type.Optional(Type.String({ description: 'With `function` and `custom`: the one to call.' })),
    namespace: optionalNullable(Type.String({ description: 'Namespace of the tool.' })),
    mode: Type.Optional(Type.Enum(['auto', 'required'])),
    tools: Type.Optional(Type.Array(ItemSchema, { description: 'With `allowed_tools`: those that may be called.' })),
  }),
]);

const TextFormatSchema = Type.Object({
  type: Type.Enum(['text', 'json_object', 'json_schema']),
  name: optionalNullable(Type.String()),
  description: optionalNullable(Type.String()),
  schema: optionalNullable(JsonObjectSchema),
  strict: optionalNullable(Type.Boolean()),
});

const EffortSchema = Type.Enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']);
const SummarySchema = Type.Enum(['auto', 'concise', 'detailed']);

/** Fields of `/v1/responses/input_tokens`; the others only shape the reply. */
const promptFields = {
  model: chat.model,
  input: optionalNullable(
    Type.Union([Type.String(), Type.Array(ItemSchema)], {
      description:
        'User text, or items of the types `message`, `function_call`, `function_call_output`, `custom_tool_call`, `custom_tool_call_output`, `reasoning` and `item_reference` (id of an item of a kept answer), oldest first. Items written by other services (server-side tool and shell calls, compactions, encrypted reasoning) and images in tool results are read as text or left out. The response header `x-trainyard-left-out` counts them. Required without `conversation` and `previous_response_id`.',
    }),
  ),
  previous_response_id: optionalNullable(
    Type.String({
      description:
        'Id of a kept answer. Its input and output are put before `input`; its `instructions` are not. An unknown id is 400 `previous_response_not_found`.',
    }),
  ),
  conversation: optionalNullable(
    Type.Union([Type.String({ minLength: 1 }), ConversationIdSchema], {
      description:
        'Id of a conversation of `/v1/conversations`. Its items are put before `input`. When the answer ends as `completed` or `incomplete`, its input and output are added to the conversation. Cannot be combined with `previous_response_id`. An unknown id is 404.',
    }),
  ),
  instructions: optionalNullable(Type.String({ description: 'System message before the input.' })),
  tools: optionalNullable(Type.Array(ResponseToolSchema, { description: 'Functions that the model may call.' })),
  tool_choice: optionalNullable(ToolChoiceSchema),
  parallel_tool_calls: chat.parallel_tool_calls,
  text: optionalNullable(
    Type.Object(
      {
        format: optionalNullable(TextFormatSchema),
        verbosity: optionalNullable(
          Type.Enum(['low', 'medium', 'high'], {
            description: 'Has no effect: ask for the length of replies in the prompt.',
          }),
        ),
      },
      { description: 'Format of the reply.' },
    ),
  ),
  reasoning: optionalNullable(
    Type.Object(
      {
        effort: optionalNullable(EffortSchema),
        summary: optionalNullable(SummarySchema),
        generate_summary: optionalNullable(SummarySchema),
        context: optionalNullable(
          Type.String({ description: 'Has no effect: the template decides which earlier thoughts the model sees.' }),
        ),
        mode: optionalNullable(Type.String({ description: 'Only `standard`.' })),
      },
      { description: 'Amount of reasoning. A summary contains the whole reasoning.' },
    ),
  ),
  truncation: optionalNullable(
    Type.Enum(['auto', 'disabled'], {
      description:
        '`disabled` (the default) refuses a prompt that is too long. `auto` drops the start of the prompt to leave space for the reply, like `truncate_prompt_tokens: -1` of a chat completion.',
    }),
  ),
  chat_template_kwargs: chat.chat_template_kwargs,
};

export const ResponsesRequestSchema = Type.Object(
  {
    ...promptFields,
    ...samplingProperties('responses'),
    max_output_tokens: optionalNullable(
      Type.Integer({ minimum: 1, description: 'Maximum number of tokens of the reply, including reasoning.' }),
    ),
    top_logprobs: optionalNullable(
      Type.Integer({
        minimum: 0,
        maximum: MAX_TOP_LOGPROBS,
        description: 'Number of most likely tokens to list at each position. Values above 0 turn log-probabilities on.',
      }),
    ),
    include: optionalNullable(
      Type.Array(Type.String(), {
        description:
          '`message.output_text.logprobs` adds log-probabilities. `reasoning.encrypted_content` also puts the reasoning into `encrypted_content`, for clients that send back only that. Other names are accepted and have no effect.',
      }),
    ),
    stream: chat.stream,
    stream_options: optionalNullable(
      Type.Object(
        { include_obfuscation: optionalNullable(Type.Boolean()) },
        { description: 'Only `include_obfuscation: false`.' },
      ),
    ),
    store: optionalNullable(
      Type.Boolean({
        description:
          'Keep the answer for `previous_response_id` and later reads. Default true. Has no effect if the service keeps no answers (`--store-responses off`).',
      }),
    ),
    metadata: optionalNullable(
      Type.Unsafe<Record<string, string>>({
        type: 'object',
        additionalProperties: { type: 'string' },
        description: 'Returned in the answer.',
      }),
    ),
    background: optionalNullable(
      Type.Boolean({
        description:
          'Answer immediately with the status `queued` and compute in the background. Read the answer with `GET /v1/responses/{id}`. Requires a kept answer. Default false.',
      }),
    ),
    service_tier: optionalNullable(Type.String({ description: 'Has no effect: there is only one tier.' })),
    max_tool_calls: optionalNullable(
      Type.Integer({
        description: 'Has no effect: it limits calls of server-side tools, and there are none.',
      }),
    ),
    user: optionalNullable(Type.String({ description: 'Has no effect.' })),
    safety_identifier: optionalNullable(Type.String({ description: 'Has no effect.' })),
    prompt_cache_key: optionalNullable(
      Type.String({ description: 'Has no effect: the cache covers every prefix of a tenant.' }),
    ),
    prompt_cache_retention: optionalNullable(
      Type.String({ description: 'Has no effect: prefixes are cached as long as there is space.' }),
    ),
    prompt_cache_options: optionalNullable(
      Type.Unsafe<Record<string, unknown>>({
        type: 'object',
        additionalProperties: true,
        description: 'Has no effect, like `prompt_cache_breakpoint` of a part: prefixes of any length are cached.',
      }),
    ),
    client_metadata: optionalNullable(
      Type.Unsafe<Record<string, unknown>>({
        type: 'object',
        description: 'Has no effect. Information about the client.',
      }),
    ),

    // Extensions that shape a reply, as in vLLM.
    structured_outputs: chat.structured_outputs,
    request_id: chat.request_id,
  },
  { title: 'ResponsesRequest' },
);
export type ResponsesRequest = Static<typeof ResponsesRequestSchema>;

export const CountInputTokensRequestSchema = Type.Object(promptFields, { title: 'CountInputTokensRequest' });
export type CountInputTokensRequest = Static<typeof CountInputTokensRequestSchema>;

export const InputTokensSchema = Type.Object(
  {
    object: Type.Literal('response.input_tokens'),
    input_tokens: Type.Integer({ minimum: 0, description: 'Tokens of the rendered prompt.' }),
  },
  { title: 'InputTokens' },
);
export type InputTokens = Static<typeof InputTokensSchema>;

/** Fields with the same meaning as in a chat. */
export const RESPONSES_CHAT_FIELDS = [
  ...samplingFieldsOf('responses'),
  ...([
    'parallel_tool_calls',
    'stream',
    'structured_outputs',
    'chat_template_kwargs',
    'request_id',
    'user',
  ] as const satisfies readonly (keyof ResponsesRequest & keyof typeof chat)[]),
] as const;

const StatusSchema = Type.Enum(['in_progress', 'completed', 'incomplete']);
export type ResponseStatus = Static<typeof StatusSchema>;
const ItemId = Type.String({ description: 'Unique. An `item_reference` names a kept item by it.' });

const OutputTextSchema = Type.Object(
  {
    type: Type.Literal('output_text'),
    text: Type.String(),
    annotations: Type.Array(ItemSchema, { description: 'Always empty.' }),
    logprobs: Type.Array(TokenLogprobSchema, { description: 'Empty unless requested.' }),
  },
  { title: 'OutputText' },
);
export type OutputText = Static<typeof OutputTextSchema>;
const ReasoningTextSchema = Type.Object({ type: Type.Literal('reasoning_text'), text: Type.String() });

const SummaryTextSchema = Type.Object({ type: Type.Literal('summary_text'), text: Type.String() });

const call = {
  id: ItemId,
  call_id: Type.String({ description: 'Id that the result of the call must have.' }),
  name: Type.String(),
  namespace: Type.Optional(Type.String({ description: 'Namespace of the tool, if it has one.' })),
  status: StatusSchema,
};

const OutputItemSchema = Type.Union([
  Type.Object({
    type: Type.Literal('message'),
    id: ItemId,
    role: Type.Literal('assistant'),
    status: StatusSchema,
    content: Type.Array(OutputTextSchema),
  }),
  Type.Object({
    type: Type.Literal('reasoning'),
    id: ItemId,
    status: StatusSchema,
    summary: Type.Array(SummaryTextSchema, {
      description: 'Empty unless requested with `reasoning.summary`; then the whole reasoning, as in `content`.',
    }),
    content: Type.Array(ReasoningTextSchema),
    encrypted_content: nullable(Type.String(), {
      description:
        'Copy of the text of `content` in another encoding, not encrypted. Read back if `content` is missing. Null until the item is done, and unless `include` requests it.',
    }),
  }),
  Type.Object({
    type: Type.Literal('function_call'),
    ...call,
    arguments: Type.String({ description: 'JSON, as the model wrote it.' }),
  }),
  Type.Object({
    type: Type.Literal('custom_tool_call'),
    ...call,
    input: Type.String({ description: 'Input text for the tool.' }),
  }),
]);
export type ResponseOutputItem = Static<typeof OutputItemSchema>;

const ResponseUsageSchema = Type.Object(
  {
    input_tokens: Type.Integer({ minimum: 0 }),
    input_tokens_details: Type.Object({
      cached_tokens: Type.Integer({ minimum: 0, description: 'Prompt tokens found in the cache.' }),
      cache_write_tokens: Type.Integer({ minimum: 0, description: 'Always 0: caching a prefix is free.' }),
    }),
    output_tokens: Type.Integer({ minimum: 0 }),
    output_tokens_details: Type.Object({
      reasoning_tokens: Type.Integer({ minimum: 0, description: '0 for a model without reasoning.' }),
    }),
    total_tokens: Type.Integer({ minimum: 0 }),
  },
  { title: 'ResponseUsage' },
);
export type ResponseUsage = Static<typeof ResponseUsageSchema>;

export const ResponseSchema = Type.Object(
  {
    id: Type.String({ description: '`resp_` followed by the request id.' }),
    object: Type.Literal('response'),
    created_at: CreatedSchema,
    completed_at: nullable(Type.Integer(), { description: 'Unix seconds; null before the end.' }),
    status: Type.Enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
    error: nullable(Type.Object({ code: Type.String(), message: Type.String() }), {
      description: 'Reason why a stream failed after its first byte, or a background answer failed.',
    }),
    incomplete_details: nullable(Type.Object({ reason: Type.Literal('max_output_tokens') })),
    instructions: nullable(Type.String()),
    model: AnswerModelSchema,
    output: Type.Array(OutputItemSchema, { description: 'Items in the order in which the model wrote them.' }),
    usage: nullable(ResponseUsageSchema, { description: 'Null until the reply has ended.' }),
    system_fingerprint: FingerprintSchema,
    record_id: Type.Optional(
      Type.String({ description: 'Id of the sampling record of a trained model, as in a chat completion.' }),
    ),
    max_output_tokens: nullable(Type.Integer()),
    temperature: Type.Number(),
    top_p: Type.Number(),
    top_logprobs: Type.Integer(),
    tools: Type.Array(ResponseToolSchema),
    tool_choice: ToolChoiceSchema,
    parallel_tool_calls: Type.Boolean(),
    text: Type.Object({ format: TextFormatSchema }),
    reasoning: Type.Object({ effort: nullable(EffortSchema), summary: nullable(SummarySchema) }),
    metadata: Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' } }),
    store: Type.Boolean({ description: 'True if the answer is kept.' }),
    background: Type.Boolean({ description: 'True if the answer is computed in the background.' }),
    previous_response_id: nullable(Type.String()),
    conversation: nullable(ConversationIdSchema, { description: 'Conversation named by the request.' }),
    truncation: Type.Enum(['auto', 'disabled']),
    service_tier: Type.Literal('default'),
    user: nullable(Type.String()),
    safety_identifier: nullable(Type.String()),
    prompt_cache_key: nullable(Type.String()),
  },
  { title: 'Response' },
);
export type Response = Static<typeof ResponseSchema>;

const sequence = { sequence_number: Type.Integer({ minimum: 0, description: 'Number of the event in the stream.' }) };
const place = {
  ...sequence,
  item_id: Type.String(),
  output_index: Type.Integer({ minimum: 0, description: 'Index of the item in `output`.' }),
};
const part = { ...place, content_index: Type.Literal(0) };
const summaryPart = { ...place, summary_index: Type.Literal(0) };
const logprobs = Type.Array(TokenLogprobSchema);
const PartSchema = Type.Union([OutputTextSchema, ReasoningTextSchema]);

export const ResponseEventSchema = Type.Union(
  [
    Type.Object({
      ...sequence,
      type: Type.Enum([
        'response.created',
        'response.in_progress',
        'response.completed',
        'response.incomplete',
        'response.failed',
      ]),
      response: ResponseSchema,
    }),
    Type.Object({
      ...sequence,
      type: Type.Enum(['response.output_item.added', 'response.output_item.done']),
      output_index: place.output_index,
      item: OutputItemSchema,
    }),
    Type.Object({
      ...part,
      type: Type.Enum(['response.content_part.added', 'response.content_part.done']),
      part: PartSchema,
    }),
    Type.Object({ ...part, type: Type.Literal('response.output_text.delta'), delta: Type.String(), logprobs }),
    Type.Object({ ...part, type: Type.Literal('response.output_text.done'), text: Type.String(), logprobs }),
    Type.Object({ ...part, type: Type.Literal('response.reasoning_text.delta'), delta: Type.String() }),
    Type.Object({ ...part, type: Type.Literal('response.reasoning_text.done'), text: Type.String() }),
    Type.Object({
      ...summaryPart,
      type: Type.Enum(['response.reasoning_summary_part.added', 'response.reasoning_summary_part.done']),
      part: SummaryTextSchema,
    }),
    Type.Object({
      ...summaryPart,
      type: Type.Literal('response.reasoning_summary_text.delta'),
      delta: Type.String(),
    }),
    Type.Object({ ...summaryPart, type: Type.Literal('response.reasoning_summary_text.done'), text: Type.String() }),
    Type.Object({ ...place, type: Type.Literal('response.function_call_arguments.delta'), delta: Type.String() }),
    Type.Object({
      ...place,
      type: Type.Literal('response.function_call_arguments.done'),
      name: Type.String(),
      arguments: Type.String(),
    }),
    Type.Object({
      ...place,
      type: Type.Literal('response.custom_tool_call_input.delta'),
      delta: Type.String({ description: 'Number of tokens of the whole input.' }),
    }),
    Type.Object({ ...place, type: Type.Literal('response.custom_tool_call_input.done'), input: Type.String() }),
  ],
  { title: 'ResponseEvent' },
);
export type ResponseEvent = Static<typeof ResponseEventSchema>;

export const ResponseStreamErrorSchema = Type.Object(
  {
    type: Type.Literal('error'),
    sequence_number: Type.Integer({ minimum: 0 }),
    code: Type.String({ description: 'Stable code of the error.' }),
    message: Type.String(),
    param: nullable(Type.String()),
  },
  {
    title: 'ResponseStreamError',
    description: 'Last event of a stream that fails after its headers; follows `response.failed`.',
  },
);
export type ResponseStreamError = Static<typeof ResponseStreamErrorSchema>;
