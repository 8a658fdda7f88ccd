import Type, { type Static } from 'typebox';
import { ChatMessageSchema } from './chat-message.ts';
import { JsonObjectSchema, optionalNullable } from '../shape/schema.ts';
import { samplingProperties } from './sampling-properties.ts';

/**
 * POST /v1/chat/completions: every field of the service, with its type and its own limits. Fields shared with
 * other requests, and those that shape the reply, are in `fields/sampling-fields.ts`.
 *
 * Defaults, nullability and limits follow vLLM. A field wrapped in `optionalNullable` reads `null` as its
 * default; the others refuse `null`. The server checks contradicting fields. `FIELDS_WITHOUT_EFFECT` lists
 * fields without effect.
 */

/** Maximum `top_logprobs` of a Responses request, as in OpenAI; other routes limit it by a setting. */
export const MAX_TOP_LOGPROBS = 20;

export const ToolSchema = Type.Object({
  type: Type.Literal('function'),
  function: Type.Object({
    name: Type.String({ minLength: 1 }),
    description: optionalNullable(Type.String()),
    parameters: optionalNullable(JsonObjectSchema),
    strict: optionalNullable(Type.Boolean()),
  }),
});
export type Tool = Static<typeof ToolSchema>;

/** Characters of a chat template in a request; real ones have up to 30,000. */
const MAX_TEMPLATE_CHARACTERS = 262_144;

const ResponseFormatSchema = Type.Object({
  type: Type.Enum(['text', 'json_object', 'json_schema', 'structural_tag']),
  json_schema: optionalNullable(
    Type.Object({
      name: Type.String(),
      description: optionalNullable(Type.String()),
      schema: optionalNullable(JsonObjectSchema),
      strict: optionalNullable(Type.Boolean()),
    }),
  ),
});

const StructuredOutputsSchema = Type.Object({
  json: optionalNullable(Type.Union([Type.String(), JsonObjectSchema, Type.Boolean()])),
  regex: optionalNullable(Type.String()),
  choice: optionalNullable(Type.Array(Type.String())),
  grammar: optionalNullable(Type.String()),
  json_object: optionalNullable(Type.Boolean()),
  structural_tag: optionalNullable(Type.String()),
  disable_fallback: Type.Optional(Type.Boolean()),
  disable_any_whitespace: Type.Optional(Type.Boolean()),
  disable_additional_properties: Type.Optional(Type.Boolean()),
  whitespace_pattern: optionalNullable(Type.String()),
});

const ExtraArgumentsSchema = Type.Unsafe<Record<string, unknown>>({
  type: 'object',
  additionalProperties: {
    anyOf: [
      { type: 'string' },
      { type: 'number' },
      { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'number' }] } },
    ],
  },
});

export const ChatCompletionRequestSchema = Type.Object(
  {
    ...samplingProperties('chat'),

    // OpenAI
    messages: Type.Array(ChatMessageSchema),
    model: optionalNullable(Type.String()),
    logprobs: optionalNullable(Type.Boolean()),
    top_logprobs: optionalNullable(Type.Integer({ minimum: -1 })),
    max_tokens: optionalNullable(Type.Integer({ minimum: 1 })),
    max_completion_tokens: optionalNullable(Type.Integer({ minimum: 1 })),
    response_format: optionalNullable(ResponseFormatSchema),
    stream: optionalNullable(Type.Boolean()),
    stream_options: optionalNullable(
      Type.Object({
        include_usage: optionalNullable(Type.Boolean()),
        continuous_usage_stats: optionalNullable(Type.Boolean()),
      }),
    ),
    tools: optionalNullable(Type.Array(ToolSchema)),
    tool_choice: optionalNullable(
      Type.Union([
        Type.Enum(['none', 'auto', 'required']),
        Type.Object({ type: Type.Literal('function'), function: Type.Object({ name: Type.String() }) }),
      ]),
    ),
    parallel_tool_calls: optionalNullable(Type.Boolean()),
    reasoning_effort: optionalNullable(Type.Enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'])),
    user: optionalNullable(Type.String()),

    // vLLM: prompt
    echo: Type.Optional(Type.Boolean()),
    add_generation_prompt: Type.Optional(Type.Boolean()),
    continue_final_message: Type.Optional(Type.Boolean()),
    add_special_tokens: Type.Optional(Type.Boolean()),
    documents: optionalNullable(
      Type.Array(Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' } })),
    ),
    chat_template: optionalNullable(Type.String({ maxLength: MAX_TEMPLATE_CHARACTERS })),
    chat_template_kwargs: optionalNullable(JsonObjectSchema),
    mm_processor_kwargs: optionalNullable(JsonObjectSchema),
    media_io_kwargs: optionalNullable(JsonObjectSchema),
    include_reasoning: Type.Optional(Type.Boolean()),
    structured_outputs: optionalNullable(StructuredOutputsSchema),

    // vLLM: serving
    request_id: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
    session_id: optionalNullable(Type.String()),
    return_tokens_as_token_ids: optionalNullable(Type.Boolean()),
    return_token_ids: optionalNullable(Type.Boolean()),
    return_prompt_text: optionalNullable(Type.Boolean()),
    stream_interval: optionalNullable(Type.Integer({ minimum: 1 })),
    kv_transfer_params: optionalNullable(JsonObjectSchema),
    ec_transfer_params: optionalNullable(JsonObjectSchema),
    vllm_xargs: optionalNullable(ExtraArgumentsSchema),
    engine_xargs: optionalNullable(ExtraArgumentsSchema),
  },
  { title: 'ChatCompletionRequest' },
);
export type ChatCompletionRequest = Static<typeof ChatCompletionRequestSchema>;
export type ChatCompletionField = keyof ChatCompletionRequest;
