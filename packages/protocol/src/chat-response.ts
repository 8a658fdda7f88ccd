import Type, { type Static } from 'typebox';

import { ErrorObjectSchema } from './errors.ts';
import { ToolCallSchema } from './chat-message.ts';
import { nullable } from './schema.ts';

/** What a chat completion answers: in one piece, or as chunks of a stream. */

const TopLogprobSchema = Type.Object(
  {
    token: Type.String({ description: "The token's text, or `token_id:N`." }),
    logprob: Type.Number({ description: 'Natural logarithm; −∞ is sent as −9999.' }),
    bytes: Type.Array(Type.Integer({ minimum: 0, maximum: 255 }), {
      description: "UTF-8 of the token's own bytes, which may be a piece of a character.",
    }),
  },
  { title: 'TopLogprob' },
);
export type TopLogprobEntry = Static<typeof TopLogprobSchema>;

const TokenLogprobSchema = Type.Object(
  {
    ...TopLogprobSchema.properties,
    top_logprobs: Type.Array(TopLogprobSchema, {
      description: 'The sampled token first, then the most likely others; as many as `top_logprobs` asked for.',
    }),
  },
  { title: 'TokenLogprob', description: 'What a choice says about one sampled token.' },
);
export type TokenLogprobEntry = Static<typeof TokenLogprobSchema>;

const ChoiceLogprobsSchema = Type.Object(
  {
    content: Type.Array(TokenLogprobSchema, {
      description: 'One entry per sampled token, the end-of-turn token included.',
    }),
  },
  { title: 'ChoiceLogprobs' },
);
export type ChoiceLogprobs = Static<typeof ChoiceLogprobsSchema>;

export const FinishReasonSchema = Type.Enum(['stop', 'length', 'tool_calls', 'repetition', 'abort'], {
  description: 'Why the choice ended.',
});
export type WireFinishReason = Static<typeof FinishReasonSchema>;

export const StopReasonSchema = Type.Union([Type.String(), Type.Integer(), Type.Null()], {
  description: 'The stop string or stop token id that ended it; null for the end of turn and for the length limit.',
});

export const TokenIdsSchema = nullable(Type.Array(Type.Integer({ minimum: 0 })), {
  description: 'Every sampled id, the stopping one included; null unless asked for.',
});

const AssistantMessageSchema = Type.Object(
  {
    role: Type.Literal('assistant'),
    content: nullable(Type.String(), { description: 'The text of the reply.' }),
    refusal: Type.Null(),
    annotations: Type.Null(),
    audio: Type.Null(),
    function_call: Type.Null(),
    tool_calls: Type.Optional(Type.Array(ToolCallSchema, { description: 'Absent when no tool was called.' })),
    reasoning: nullable(Type.String(), { description: 'Text of the reasoning, where it is split off.' }),
  },
  { title: 'AssistantMessage' },
);
export type AssistantMessage = Static<typeof AssistantMessageSchema>;

const ChatCompletionChoiceSchema = Type.Object(
  {
    index: Type.Integer({ minimum: 0 }),
    message: AssistantMessageSchema,
    logprobs: nullable(ChoiceLogprobsSchema, {
      description: 'Null unless asked for; on by default for trained models.',
    }),
    finish_reason: FinishReasonSchema,
    stop_reason: StopReasonSchema,
    token_ids: TokenIdsSchema,
    routed_experts: Type.Null(),
  },
  { title: 'ChatCompletionChoice' },
);
export type ChatCompletionChoice = Static<typeof ChatCompletionChoiceSchema>;

const CachedTokensSchema = Type.Object({
  cached_tokens: Type.Integer({ minimum: 0, description: 'Prompt tokens that were already in memory.' }),
});

export const CompletionUsageSchema = Type.Object(
  {
    prompt_tokens: Type.Integer({
      minimum: 0,
      description: 'The whole prompt, counted once even for several choices.',
    }),
    total_tokens: Type.Integer({ minimum: 0 }),
    completion_tokens: Type.Integer({ minimum: 0, description: 'The sum over all choices.' }),
    prompt_tokens_details: nullable(CachedTokensSchema),
    completion_tokens_details: Type.Null(),
  },
  { title: 'CompletionUsage' },
);
export type CompletionUsage = Static<typeof CompletionUsageSchema>;

export const CreatedSchema = Type.Integer({ description: 'Unix seconds.' });
export const AnswerModelSchema = Type.String({
  description: "The resolved name: the base model's id, or `entity/project/name:stepN`.",
});
export const FingerprintSchema = Type.String({
  description: "Names the exact weights: `trainyard-` and 8 hex digits of the adapter's digest, or `trainyard-base`.",
});

export const ChatCompletionSchema = Type.Object(
  {
    id: Type.String({ description: '`chatcmpl-` and the request id.' }),
    object: Type.Literal('chat.completion'),
    created: CreatedSchema,
    model: AnswerModelSchema,
    choices: Type.Array(ChatCompletionChoiceSchema, { description: 'In order of index.' }),
    service_tier: Type.Null(),
    system_fingerprint: FingerprintSchema,
    usage: CompletionUsageSchema,
    prompt_logprobs: Type.Null(),
    prompt_token_ids: nullable(Type.Array(Type.Integer({ minimum: 0 })), {
      description: 'Ids of the rendered prompt, with `return_token_ids`.',
    }),
    prompt_text: Type.Null(),
    kv_transfer_params: Type.Null(),
    ec_transfer_params: Type.Null(),
    metrics: Type.Null(),
  },
  {
    title: 'ChatCompletion',
    description: 'The answer to a request without `stream`. Every key is present; what is unknown is null.',
  },
);
export type ChatCompletion = Static<typeof ChatCompletionSchema>;

const ChunkChoiceSchema = Type.Object(
  {
    index: Type.Integer({ minimum: 0 }),
    delta: Type.Object({
      role: Type.Optional(Type.Literal('assistant', { description: 'In the first chunk of a choice.' })),
      content: Type.Optional(Type.String({ description: 'The text that this chunk adds.' })),
    }),
    logprobs: nullable(ChoiceLogprobsSchema, { description: "Exactly this chunk's tokens." }),
    finish_reason: nullable(FinishReasonSchema, { description: 'Null until the last chunk of the choice.' }),
    stop_reason: Type.Optional(StopReasonSchema),
    token_ids: Type.Optional(TokenIdsSchema),
  },
  { title: 'ChunkChoice' },
);
/** One choice of a chunk. `stop_reason` is present only when `finish_reason` is not null. */
export type ChunkChoice = Static<typeof ChunkChoiceSchema>;

export const ChunkUsageSchema = Type.Object(
  {
    prompt_tokens: Type.Integer({ minimum: 0 }),
    total_tokens: Type.Integer({ minimum: 0 }),
    completion_tokens: Type.Integer({ minimum: 0 }),
    prompt_tokens_details: Type.Optional(CachedTokensSchema),
  },
  { title: 'ChunkUsage' },
);
export type ChunkUsage = Static<typeof ChunkUsageSchema>;

export const ChatCompletionChunkSchema = Type.Object(
  {
    id: Type.String({ description: 'The same in all chunks.' }),
    object: Type.Literal('chat.completion.chunk'),
    created: CreatedSchema,
    model: AnswerModelSchema,
    choices: Type.Array(ChunkChoiceSchema, { description: 'Empty in the usage chunk.' }),
    prompt_token_ids: Type.Optional(
      nullable(Type.Array(Type.Integer({ minimum: 0 })), { description: 'Only in the first chunk of a choice.' }),
    ),
    prompt_text: Type.Optional(Type.Null()),
    system_fingerprint: Type.Optional(FingerprintSchema),
    usage: Type.Optional(ChunkUsageSchema),
  },
  { title: 'ChatCompletionChunk', description: 'One event of a stream; the last event is the literal `[DONE]`.' },
);
export type ChatCompletionChunk = Static<typeof ChatCompletionChunkSchema>;

export const StreamErrorSchema = Type.Object(
  { error: ErrorObjectSchema },
  { title: 'StreamError', description: 'What a stream sends when it fails after its headers; `[DONE]` follows.' },
);
export type StreamError = Static<typeof StreamErrorSchema>;
