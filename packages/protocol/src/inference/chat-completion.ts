import Type, { type Static } from 'typebox';
import { ChatMessageSchema } from './chat-message.ts';
import { JsonObjectSchema, optionalNullable } from '../shape/schema.ts';

/**
 * POST /v1/chat/completions: every field the service knows, with its type and its own limits.
 *
 * Defaults, nullability and limits follow vLLM. A field wrapped in `optionalNullable` reads `null` as its default;
 * the others refuse `null`. Fields that contradict each other are checked by the server, not here.
 * Fields without effect here are listed in `FIELDS_WITHOUT_EFFECT`.
 */

/** The largest `top_logprobs` of a Responses request, as OpenAI's; elsewhere a setting limits it. */
export const MAX_TOP_LOGPROBS = 20;
/** Ids that are scored at every step; vLLM's limit. */
const MAX_SCORED_TOKENS = 128;
/** The largest number of stop strings. */
export const MAX_STOP_STRINGS = 4;
/** The largest number of stop token ids. */
const MAX_STOP_TOKEN_IDS = 4096;
/** The largest number of bad words. */
const MAX_BAD_WORDS = 1024;
/** The most choices one request may ask for. */
export const MAX_CHOICES = 16_384;

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

/** Characters of a chat template that comes with a request; real ones have up to 30,000. */
const MAX_TEMPLATE_CHARACTERS = 262_144;
/** Characters of one stop string: more than the engine takes of all together. */
const MAX_STOP_CHARACTERS = 16_384;
const StopString = Type.String({ minLength: 1, maxLength: MAX_STOP_CHARACTERS });
const TokenId = Type.Integer({ minimum: 0 });

/** Keys are token ids in decimal, values are added to the logit (clamped to [-100, 100]). */
const LogitBiasSchema = Type.Unsafe<Record<string, number>>({
  type: 'object',
  propertyNames: { pattern: '^-?[0-9]+$' },
  additionalProperties: { type: 'number' },
});

/** Signed 64 bits. JSON numbers beyond 2^53 arrive here as their digits, see `normalizeChatCompletionRequest`. */
const SeedSchema = Type.Union([
  Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
  Type.String({ pattern: '^-?[0-9]{1,19}$' }),
]);

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

const RepetitionDetectionSchema = Type.Object({
  max_pattern_size: Type.Optional(Type.Integer({ minimum: 0 })),
  min_pattern_size: Type.Optional(Type.Integer({ minimum: 0 })),
  min_count: Type.Optional(Type.Integer({ minimum: 0 })),
});

/** Arguments of custom samplers. */
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
    // OpenAI
    messages: Type.Array(ChatMessageSchema),
    model: optionalNullable(Type.String()),
    frequency_penalty: optionalNullable(Type.Number({ minimum: -2, maximum: 2 })),
    presence_penalty: optionalNullable(Type.Number({ minimum: -2, maximum: 2 })),
    logit_bias: optionalNullable(LogitBiasSchema),
    logprobs: optionalNullable(Type.Boolean()),
    top_logprobs: optionalNullable(Type.Integer({ minimum: -1 })),
    max_tokens: optionalNullable(Type.Integer({ minimum: 1 })),
    max_completion_tokens: optionalNullable(Type.Integer({ minimum: 1 })),
    n: optionalNullable(Type.Integer({ minimum: 1, maximum: MAX_CHOICES })),
    response_format: optionalNullable(ResponseFormatSchema),
    seed: optionalNullable(SeedSchema),
    stop: optionalNullable(Type.Union([StopString, Type.Array(StopString, { maxItems: MAX_STOP_STRINGS })])),
    stream: optionalNullable(Type.Boolean()),
    stream_options: optionalNullable(
      Type.Object({
        include_usage: optionalNullable(Type.Boolean()),
        continuous_usage_stats: optionalNullable(Type.Boolean()),
      }),
    ),
    temperature: optionalNullable(Type.Number({ minimum: 0, maximum: 2 })),
    top_p: optionalNullable(Type.Number({ exclusiveMinimum: 0, maximum: 1 })),
    tools: optionalNullable(Type.Array(ToolSchema, { minItems: 1 })),
    tool_choice: optionalNullable(
      Type.Union([
        Type.Enum(['none', 'auto', 'required']),
        Type.Object({ type: Type.Literal('function'), function: Type.Object({ name: Type.String() }) }),
      ]),
    ),
    parallel_tool_calls: optionalNullable(Type.Boolean()),
    reasoning_effort: optionalNullable(Type.Enum(['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'])),
    user: optionalNullable(Type.String()),

    // vLLM: sampling
    use_beam_search: Type.Optional(Type.Boolean()),
    top_k: optionalNullable(Type.Integer({ minimum: -1 })),
    min_p: optionalNullable(Type.Number({ minimum: 0, maximum: 1 })),
    repetition_penalty: optionalNullable(Type.Number({ exclusiveMinimum: 0 })),
    length_penalty: Type.Optional(Type.Number()),
    stop_token_ids: optionalNullable(Type.Array(TokenId, { maxItems: MAX_STOP_TOKEN_IDS })),
    include_stop_str_in_output: Type.Optional(Type.Boolean()),
    ignore_eos: Type.Optional(Type.Boolean()),
    min_tokens: Type.Optional(Type.Integer({ minimum: 0 })),
    skip_special_tokens: optionalNullable(Type.Boolean()),
    spaces_between_special_tokens: Type.Optional(Type.Boolean()),
    truncate_prompt_tokens: optionalNullable(Type.Integer({ minimum: -1 })),
    truncation_side: optionalNullable(Type.Enum(['left', 'right'])),
    prompt_logprobs: optionalNullable(Type.Integer({ minimum: -1 })),
    allowed_token_ids: optionalNullable(Type.Array(TokenId)),
    bad_words: Type.Optional(Type.Array(Type.String({ minLength: 1 }), { maxItems: MAX_BAD_WORDS })),
    repetition_detection: optionalNullable(RepetitionDetectionSchema),
    logprob_token_ids: optionalNullable(Type.Array(TokenId, { maxItems: MAX_SCORED_TOKENS })),
    thinking_token_budget: optionalNullable(Type.Integer({ minimum: -1 })),

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
    priority: Type.Optional(Type.Integer()),
    request_id: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })),
    session_id: optionalNullable(Type.String()),
    return_tokens_as_token_ids: optionalNullable(Type.Boolean()),
    return_token_ids: optionalNullable(Type.Boolean()),
    return_prompt_text: optionalNullable(Type.Boolean()),
    stream_interval: optionalNullable(Type.Integer({ minimum: 1 })),
    // Longer or structured salts would be ambiguous inside the cache's namespace key.
    cache_salt: optionalNullable(Type.String({ minLength: 1, maxLength: 128, pattern: '^[^@/\\\\\\u0000]*$' })),
    kv_transfer_params: optionalNullable(JsonObjectSchema),
    ec_transfer_params: optionalNullable(JsonObjectSchema),
    vllm_xargs: optionalNullable(ExtraArgumentsSchema),
    engine_xargs: optionalNullable(ExtraArgumentsSchema),

    // This service
    logprobs_mode: optionalNullable(Type.Enum(['raw_logprobs', 'processed_logprobs'])),
  },
  { title: 'ChatCompletionRequest' },
);
export type ChatCompletionRequest = Static<typeof ChatCompletionRequestSchema>;
export type ChatCompletionField = keyof ChatCompletionRequest;
