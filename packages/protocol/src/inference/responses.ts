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
        '`function`, `custom` (its input is a text), or a `namespace` with `tools` of these two; tools that a server runs are refused.',
    }),
    name: Type.Optional(Type.String({ minLength: 1 })),
    description: optionalNullable(Type.String()),
    parameters: optionalNullable(JsonObjectSchema),
    strict: optionalNullable(Type.Boolean()),
    format: optionalNullable(
      Type.Object(
        { type: Type.String() },
        { description: 'Of the input of a custom tool: `text`; grammars are refused.' },
      ),
    ),
    tools: optionalNullable(Type.Array(ItemSchema, { description: 'Of a namespace: its tools.' })),
    allowed_callers: optionalNullable(Type.Array(Type.String(), { description: 'With `direct` among them.' })),
    defer_loading: optionalNullable(Type.Boolean({ description: 'False: every tool is shown.' })),
    async: optionalNullable(Type.Boolean({ description: 'False: a call is waited for.' })),
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
    namespace: optionalNullable(Type.String({ description: 'The one that it is in.' })),
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
  input: Type.Union([Type.String(), Type.Array(ItemSchema)], {
    description:
      'Text of a user, or items of the types `message`, `function_call`, `function_call_output`, `custom_tool_call`, `custom_tool_call_output`, `reasoning` and `item_reference` (an item of a kept answer, by its id), oldest first. Items that other services write (calls of tools that a server or a shell ran, compactions, encrypted reasoning) and pictures in results of tools are read as text or left out: `x-trainyard-left-out` of the answer counts them.',
  }),
  previous_response_id: optionalNullable(
    Type.String({
      description:
        'A kept answer: its input and its output come before `input`. Its `instructions` do not. An unknown id is 400 `previous_response_not_found`.',
    }),
  ),
  conversation: optionalNullable(
    Type.Union([Type.String({ minLength: 1 }), ConversationIdSchema], {
      description:
        'A conversation of `/v1/conversations`, by its id: its items come before `input`. When the answer has ended as `completed` or `incomplete`, `input` and output are added to it. Not with `previous_response_id`. An unknown id is 404.',
    }),
  ),
  instructions: optionalNullable(Type.String({ description: 'A system message in front of the input.' })),
  tools: optionalNullable(Type.Array(ResponseToolSchema, { description: 'Functions that the model may call.' })),
  tool_choice: optionalNullable(ToolChoiceSchema),
  parallel_tool_calls: chat.parallel_tool_calls,
  text: optionalNullable(
    Type.Object(
      {
        format: optionalNullable(TextFormatSchema),
        verbosity: optionalNullable(
          Type.Enum(['low', 'medium', 'high'], {
            description: 'Has no effect: say in the prompt how long replies should be.',
          }),
        ),
      },
      { description: 'The form of the reply.' },
    ),
  ),
  reasoning: optionalNullable(
    Type.Object(
      {
        effort: optionalNullable(EffortSchema),
        summary: optionalNullable(SummarySchema),
        generate_summary: optionalNullable(SummarySchema),
        context: optionalNullable(
          Type.String({ description: 'Has no effect: the template says which earlier thoughts are read.' }),
        ),
        mode: optionalNullable(Type.String({ description: '`standard`: there is one.' })),
      },
      { description: 'How much to think. A summary is the whole reasoning, told there too.' },
    ),
  ),
  truncation: optionalNullable(
    Type.Enum(['auto', 'disabled'], {
      description:
        '`disabled`, the default, refuses a prompt that is too long. `auto` cuts its beginning off, as far as the reply needs room: `truncate_prompt_tokens: -1` of a chat.',
    }),
  ),
  chat_template_kwargs: chat.chat_template_kwargs,
};

export const ResponsesRequestSchema = Type.Object(
  {
    ...promptFields,
    ...samplingProperties('responses'),
    max_output_tokens: optionalNullable(
      Type.Integer({ minimum: 1, description: 'The most tokens of the reply, reasoning included.' }),
    ),
    top_logprobs: optionalNullable(
      Type.Integer({
        minimum: 0,
        maximum: MAX_TOP_LOGPROBS,
        description: 'How many likely tokens to list at each place. Above 0 the log-probabilities are told.',
      }),
    ),
    include: optionalNullable(
      Type.Array(Type.String(), {
        description:
          '`message.output_text.logprobs`; names of what answers here never have are taken; `reasoning.encrypted_content` puts the reasoning into `encrypted_content` too, for clients that send back nothing else of it.',
      }),
    ),
    stream: chat.stream,
    stream_options: optionalNullable(
      Type.Object(
        { include_obfuscation: optionalNullable(Type.Boolean()) },
        { description: '`include_obfuscation: false` is what is done.' },
      ),
    ),
    store: optionalNullable(
      Type.Boolean({
        description:
          'Keep the answer, to be named by `previous_response_id` and read again. Default true. Without effect if the service keeps no answers (`--store-responses off`).',
      }),
    ),
    metadata: optionalNullable(
      Type.Unsafe<Record<string, string>>({
        type: 'object',
        additionalProperties: { type: 'string' },
        description: 'Comes back in the answer.',
      }),
    ),
    background: optionalNullable(
      Type.Boolean({
        description:
          'Answer at once with the status `queued`, and compute in the background; read the answer with `GET /v1/responses/{id}`. Needs an answer that is kept. Default false.',
      }),
    ),
    service_tier: optionalNullable(Type.String({ description: 'Has no effect: there is one tier.' })),
    max_tool_calls: optionalNullable(
      Type.Integer({
        description: 'Has no effect: it limits calls of tools that a server runs, and none are run here.',
      }),
    ),
    user: optionalNullable(Type.String({ description: 'Has no effect.' })),
    safety_identifier: optionalNullable(Type.String({ description: 'Has no effect.' })),
    prompt_cache_key: optionalNullable(
      Type.String({ description: 'Has no effect: every prefix of a tenant is looked for in memory.' }),
    ),
    prompt_cache_retention: optionalNullable(
      Type.String({ description: 'Has no effect: prefixes are kept as long as there is room.' }),
    ),
    prompt_cache_options: optionalNullable(
      Type.Unsafe<Record<string, unknown>>({
        type: 'object',
        additionalProperties: true,
        description: 'Has no effect, nor has `prompt_cache_breakpoint` of a part: prefixes of any length are found.',
      }),
    ),
    client_metadata: optionalNullable(
      Type.Unsafe<Record<string, unknown>>({
        type: 'object',
        description: 'Has no effect: what a client says of itself.',
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
    input_tokens: Type.Integer({ minimum: 0, description: 'Of the rendered prompt.' }),
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
const ItemId = Type.String({ description: 'Unique. A kept item is found by it (`item_reference`).' });

const OutputTextSchema = Type.Object(
  {
    type: Type.Literal('output_text'),
    text: Type.String(),
    annotations: Type.Array(ItemSchema, { description: 'Always empty.' }),
    logprobs: Type.Array(TokenLogprobSchema, { description: 'Empty unless asked for.' }),
  },
  { title: 'OutputText' },
);
export type OutputText = Static<typeof OutputTextSchema>;
const ReasoningTextSchema = Type.Object({ type: Type.Literal('reasoning_text'), text: Type.String() });

const SummaryTextSchema = Type.Object({ type: Type.Literal('summary_text'), text: Type.String() });

const call = {
  id: ItemId,
  call_id: Type.String({ description: 'What its result is sent with.' }),
  name: Type.String(),
  namespace: Type.Optional(Type.String({ description: 'The one of the tool, where it is in one.' })),
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
      description: 'Empty unless asked for with `reasoning.summary`: then the whole, as in `content`.',
    }),
    content: Type.Array(ReasoningTextSchema),
    encrypted_content: nullable(Type.String(), {
      description:
        'The text of `content` once more, spelled otherwise and no secret, which is read back where `content` is missing; null until the item is done, and unless `include` asks for it.',
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
    input: Type.String({ description: 'The text for the tool.' }),
  }),
]);
export type ResponseOutputItem = Static<typeof OutputItemSchema>;

const ResponseUsageSchema = Type.Object(
  {
    input_tokens: Type.Integer({ minimum: 0 }),
    input_tokens_details: Type.Object({
      cached_tokens: Type.Integer({ minimum: 0, description: 'Prompt tokens that were already in memory.' }),
      cache_write_tokens: Type.Integer({ minimum: 0, description: 'Always 0: keeping a prefix costs nothing.' }),
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
    id: Type.String({ description: '`resp_` and the request id.' }),
    object: Type.Literal('response'),
    created_at: CreatedSchema,
    completed_at: nullable(Type.Integer(), { description: 'Unix seconds; null until then.' }),
    status: Type.Enum(['queued', 'in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
    error: nullable(Type.Object({ code: Type.String(), message: Type.String() }), {
      description: 'Why it failed: a stream after its first byte, or an answer in the background.',
    }),
    incomplete_details: nullable(Type.Object({ reason: Type.Literal('max_output_tokens') })),
    instructions: nullable(Type.String()),
    model: AnswerModelSchema,
    output: Type.Array(OutputItemSchema, { description: 'In the order in which the model wrote it.' }),
    usage: nullable(ResponseUsageSchema, { description: 'Null until the reply has ended.' }),
    system_fingerprint: FingerprintSchema,
    record_id: Type.Optional(
      Type.String({ description: 'As in a chat completion: where what was sampled of a trained model is kept.' }),
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
    store: Type.Boolean({ description: 'Whether the answer was kept.' }),
    background: Type.Boolean({ description: 'Whether it is computed in the background.' }),
    previous_response_id: nullable(Type.String()),
    conversation: nullable(ConversationIdSchema, { description: 'The conversation that the request named.' }),
    truncation: Type.Enum(['auto', 'disabled']),
    service_tier: Type.Literal('default'),
    user: nullable(Type.String()),
    safety_identifier: nullable(Type.String()),
    prompt_cache_key: nullable(Type.String()),
  },
  { title: 'Response' },
);
export type Response = Static<typeof ResponseSchema>;

const sequence = { sequence_number: Type.Integer({ minimum: 0, description: 'Counts the events.' }) };
const place = {
  ...sequence,
  item_id: Type.String(),
  output_index: Type.Integer({ minimum: 0, description: 'Which item of `output`.' }),
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
      delta: Type.String({ description: 'All of the input.' }),
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
    code: Type.String({ description: 'A stable name of the fault.' }),
    message: Type.String(),
    param: nullable(Type.String()),
  },
  {
    title: 'ResponseStreamError',
    description: 'What a stream sends last when it fails after its headers, after `response.failed`.',
  },
);
export type ResponseStreamError = Static<typeof ResponseStreamErrorSchema>;
