import Type, { type Static } from 'typebox';

import { ChatCompletionRequestSchema } from './chat-completion.ts';
import {
  AnswerModelSchema,
  ChunkUsageSchema,
  CompletionUsageSchema,
  CreatedSchema,
  FingerprintSchema,
  FinishReasonSchema,
  RecordIdSchema,
  StopReasonSchema,
  TokenIdsSchema,
} from './chat-response.ts';
import { PromptLogprobsSchema } from './logprobs.ts';
import { nullable, optionalNullable } from '../shape/schema.ts';
import { samplingProperties } from './sampling-properties.ts';

/**
 * POST /v1/completions: continues text or ids, without a template. Fields shared with chats have the same
 * meaning.
 */

export const MAX_PROMPTS = 1024;

const chat = ChatCompletionRequestSchema.properties;
const TokenId = Type.Integer({ minimum: 0 });

const PromptSchema = Type.Union([
  Type.String(),
  Type.Array(TokenId, { minItems: 1 }),
  Type.Array(Type.String(), { minItems: 1, maxItems: MAX_PROMPTS }),
  Type.Array(Type.Array(TokenId, { minItems: 1 }), { minItems: 1, maxItems: MAX_PROMPTS }),
]);

export const CompletionRequestSchema = Type.Object(
  {
    ...samplingProperties('completion'),

    // OpenAI
    prompt: PromptSchema,
    model: chat.model,
    echo: Type.Optional(Type.Boolean()),
    logprobs: optionalNullable(Type.Integer({ minimum: 0 })),
    max_tokens: optionalNullable(Type.Integer({ minimum: 0 })),
    stream: chat.stream,
    stream_options: chat.stream_options,
    suffix: optionalNullable(Type.String()),
    user: chat.user,
    best_of: optionalNullable(Type.Integer({ minimum: 1 })),

    // vLLM: form of the reply
    response_format: chat.response_format,
    structured_outputs: chat.structured_outputs,

    // vLLM: prompt and serving
    add_special_tokens: Type.Optional(Type.Boolean()),
    prompt_embeds: optionalNullable(Type.Union([Type.String(), Type.Array(Type.String())])),
    request_id: chat.request_id,
    session_id: chat.session_id,
    return_tokens_as_token_ids: chat.return_tokens_as_token_ids,
    return_token_ids: chat.return_token_ids,
    return_prompt_text: chat.return_prompt_text,
    stream_interval: chat.stream_interval,
    kv_transfer_params: chat.kv_transfer_params,
    ec_transfer_params: chat.ec_transfer_params,
    vllm_xargs: chat.vllm_xargs,
    engine_xargs: chat.engine_xargs,
  },
  { title: 'CompletionRequest' },
);
export type CompletionRequest = Static<typeof CompletionRequestSchema>;
export type CompletionField = keyof CompletionRequest;

const CompletionLogprobsSchema = Type.Object(
  {
    text_offset: Type.Array(Type.Integer({ minimum: 0 }), {
      description:
        'Offset of each token in the text, in characters (code points). With `echo`, the text is prompt and reply.',
    }),
    token_logprobs: Type.Array(nullable(Type.Number()), {
      description: 'Natural logarithms. Null for the first token of an echoed prompt.',
    }),
    tokens: Type.Array(Type.String(), { description: 'Texts of the tokens, or `token_id:N`.' }),
    top_logprobs: Type.Array(
      nullable(Type.Unsafe<Record<string, number>>({ type: 'object', additionalProperties: { type: 'number' } })),
      {
        description: 'The most likely tokens and the sampled one, keyed by text: equal texts share one entry.',
      },
    ),
  },
  { title: 'CompletionLogprobs' },
);
export type CompletionLogprobs = Static<typeof CompletionLogprobsSchema>;

const PromptTextSchema = Type.String({
  description:
    'The prompt, including control tokens, with `return_prompt_text`. In a stream, in the first chunk of a choice.',
});

const CompletionChoiceSchema = Type.Object(
  {
    index: Type.Integer({ minimum: 0, description: 'Index of the prompt × `n` + index of the choice.' }),
    text: Type.String({
      description: 'Generated text, preceded by the prompt with `echo` unless `return_token_ids` returns its ids.',
    }),
    logprobs: nullable(CompletionLogprobsSchema),
    finish_reason: FinishReasonSchema,
    stop_reason: StopReasonSchema,
    token_ids: TokenIdsSchema,
    prompt_logprobs: nullable(PromptLogprobsSchema),
    prompt_token_ids: nullable(Type.Array(TokenId), {
      description: 'Token ids of its prompt, with `return_token_ids`.',
    }),
    prompt_text: Type.Optional(PromptTextSchema),
    record_id: Type.Optional(RecordIdSchema),
  },
  { title: 'CompletionChoice' },
);
export type CompletionChoice = Static<typeof CompletionChoiceSchema>;

export const CompletionSchema = Type.Object(
  {
    id: Type.String({ description: '`cmpl-` followed by the request id.' }),
    object: Type.Literal('text_completion'),
    created: CreatedSchema,
    model: AnswerModelSchema,
    choices: Type.Array(CompletionChoiceSchema, { description: 'Sorted by index.' }),
    service_tier: Type.Null(),
    system_fingerprint: FingerprintSchema,
    usage: CompletionUsageSchema,
    kv_transfer_params: Type.Null(),
  },
  { title: 'Completion', description: 'Answer to a request without `stream`. Every key is present.' },
);
export type Completion = Static<typeof CompletionSchema>;

const CompletionChunkChoiceSchema = Type.Object(
  {
    index: Type.Integer({ minimum: 0 }),
    text: Type.String({
      description: 'Text that this chunk adds. The first chunk of a choice starts with the echoed prompt.',
    }),
    logprobs: nullable(CompletionLogprobsSchema, { description: 'Exactly the tokens of this chunk.' }),
    finish_reason: nullable(FinishReasonSchema, { description: 'Null before the last chunk of the choice.' }),
    stop_reason: StopReasonSchema,
    token_ids: TokenIdsSchema,
    prompt_token_ids: Type.Optional(
      nullable(Type.Array(TokenId), { description: 'Present only in the first chunk of a choice.' }),
    ),
    prompt_text: Type.Optional(PromptTextSchema),
    record_id: Type.Optional(RecordIdSchema),
  },
  { title: 'CompletionChunkChoice' },
);
export type CompletionChunkChoice = Static<typeof CompletionChunkChoiceSchema>;

export const CompletionChunkSchema = Type.Object(
  {
    id: Type.String({ description: 'The same in all chunks.' }),
    object: Type.Literal('text_completion'),
    created: CreatedSchema,
    model: AnswerModelSchema,
    choices: Type.Array(CompletionChunkChoiceSchema, { description: 'Empty in the usage chunk.' }),
    system_fingerprint: Type.Optional(FingerprintSchema),
    usage: Type.Optional(ChunkUsageSchema),
  },
  { title: 'CompletionChunk', description: 'One event of a stream; the last event is the literal `[DONE]`.' },
);
export type CompletionChunk = Static<typeof CompletionChunkSchema>;
