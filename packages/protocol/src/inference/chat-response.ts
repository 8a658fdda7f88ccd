import Type, { type Static } from 'typebox';

import { ErrorObjectSchema } from '../shape/errors.ts';
import { ToolCallSchema } from './chat-message.ts';
import { ChoiceLogprobsSchema, PromptLogprobsSchema } from './logprobs.ts';
import { nullable } from '../shape/schema.ts';

/** Answer of a chat completion: whole, or as chunks of a stream. */

export const FinishReasonSchema = Type.Enum(['stop', 'length', 'tool_calls', 'repetition', 'abort'], {
  description:
    'Why the choice ended. `tool_calls`: it stopped by itself, and called tools (not for a tool that the request named).',
});
export type WireFinishReason = Static<typeof FinishReasonSchema>;

export const StopReasonSchema = Type.Union([Type.String(), Type.Integer(), Type.Null()], {
  description:
    'The stop string or stop token id that ended it, `repetition_detected`, or null for the end of turn and for the length limit.',
});

export const TokenIdsSchema = nullable(Type.Array(Type.Integer({ minimum: 0 })), {
  description:
    'Every sampled id, the stopping one included; null unless asked for, and in replies that may hold reasoning which the request hides.',
});

export const RecordIdSchema = Type.String({
  description:
    'Under this id the service keeps what was sampled: training takes the tokens and log-probabilities from there where a choice comes without them. Absent for the base model and with `use_beam_search`.',
});

const PolicyTokenSpanSchema = Type.Object(
  {
    start_token: Type.Integer({ minimum: 0, description: 'Of the sampled tokens, the first of the span.' }),
    end_token: Type.Integer({ minimum: 1, description: 'The one behind its last.' }),
    generation_id: Type.String({ description: "The answer's id." }),
    policy_version: Type.Integer({ minimum: 0, description: 'The step of the model that sampled them.' }),
    lora_slot: Type.String({ description: "The answer's `model`." }),
    update_seq: Type.Integer({ minimum: 0, description: 'The step again: weights never change below a step.' }),
  },
  { title: 'PolicyTokenSpan' },
);
export type PolicyTokenSpan = Static<typeof PolicyTokenSpanSchema>;

const PolicyTokenSpansSchema = Type.Array(PolicyTokenSpanSchema, {
  description:
    'Which step of the model sampled which tokens, as ART asks of an evaluation: one span, since an answer is sampled by one step. With the `token_ids` of trained models.',
});

const RoleSchema = Type.String({
  description: "`assistant`, or the last message's role with `add_generation_prompt: false`.",
});

const AssistantMessageSchema = Type.Object(
  {
    role: RoleSchema,
    content: nullable(Type.String(), {
      description:
        'The text of the reply, behind the last message with `echo`. Null when there is only reasoning, or only calls; empty where `tool_choice` is `required` or names a tool.',
    }),
    refusal: Type.Null(),
    annotations: Type.Null(),
    audio: Type.Null(),
    function_call: Type.Null(),
    tool_calls: Type.Optional(Type.Array(ToolCallSchema, { description: 'Absent when no tool was called.' })),
    reasoning: nullable(Type.String(), {
      description: 'Text of the reasoning, where it is split off; null with `include_reasoning: false`.',
    }),
    reasoning_content: Type.Optional(
      nullable(Type.String(), { description: 'The same under its older name, where the request asks for that.' }),
    ),
  },
  { title: 'AssistantMessage' },
);
export type AssistantMessage = Static<typeof AssistantMessageSchema>;

const ChatCompletionChoiceSchema = Type.Object(
  {
    index: Type.Integer({ minimum: 0 }),
    message: AssistantMessageSchema,
    logprobs: nullable(ChoiceLogprobsSchema, {
      description:
        'Null unless asked for, on by default for trained models; null in replies that may hold reasoning which the request hides.',
    }),
    finish_reason: FinishReasonSchema,
    stop_reason: StopReasonSchema,
    token_ids: TokenIdsSchema,
    routed_experts: Type.Null(),
    record_id: Type.Optional(RecordIdSchema),
    policy_token_spans: Type.Optional(PolicyTokenSpansSchema),
  },
  { title: 'ChatCompletionChoice' },
);
export type ChatCompletionChoice = Static<typeof ChatCompletionChoiceSchema>;

const CachedTokensSchema = Type.Object({
  cached_tokens: Type.Integer({ minimum: 0, description: 'Prompt tokens that were already in memory.' }),
});

const ReasoningTokensSchema = Type.Object({
  reasoning_tokens: Type.Integer({ minimum: 0, description: 'Completion tokens that were reasoning, hidden or not.' }),
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
    completion_tokens_details: nullable(ReasoningTokensSchema, {
      description: 'Null for a model without reasoning.',
    }),
  },
  { title: 'CompletionUsage' },
);
export type CompletionUsage = Static<typeof CompletionUsageSchema>;

export const CreatedSchema = Type.Integer({ description: 'Unix seconds.' });
export const AnswerModelSchema = Type.String({
  description: "The resolved name: the base model's id, `entity/project/name:stepN` or `adapter:ID`.",
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
    prompt_logprobs: nullable(PromptLogprobsSchema, { description: 'Null unless asked for.' }),
    prompt_token_ids: nullable(Type.Array(Type.Integer({ minimum: 0 })), {
      description: 'Ids of the rendered prompt, with `return_token_ids`.',
    }),
    prompt_text: nullable(Type.String(), { description: 'The rendered prompt, with `return_prompt_text`.' }),
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

const ToolCallDeltaSchema = Type.Object(
  {
    index: Type.Integer({ minimum: 0, description: 'Which call of the choice.' }),
    id: Type.Optional(Type.String({ description: 'With the first piece of a call only.' })),
    type: Type.Optional(Type.Literal('function', { description: 'With the first piece of a call only.' })),
    function: Type.Object({
      name: Type.Optional(
        nullable(Type.String(), {
          description: 'With the first piece of a call; in later ones null (`tool_choice: "required"`) or absent.',
        }),
      ),
      arguments: Type.Optional(Type.String({ description: 'What comes next of the JSON text.' })),
    }),
  },
  { title: 'ToolCallDelta' },
);
export type ToolCallDeltaEntry = Static<typeof ToolCallDeltaSchema>;

const ChunkDeltaSchema = Type.Object(
  {
    role: Type.Optional(RoleSchema),
    content: Type.Optional(
      nullable(Type.String(), { description: 'The text that this chunk adds; null beside pieces of calls.' }),
    ),
    reasoning: Type.Optional(Type.String({ description: 'The reasoning that this chunk adds.' })),
    reasoning_content: Type.Optional(
      Type.String({ description: 'The same under its older name, where the request asks for that.' }),
    ),
    tool_calls: Type.Optional(Type.Array(ToolCallDeltaSchema, { description: 'Pieces of calls, in order.' })),
  },
  {
    title: 'ChunkDelta',
    description:
      'What a chunk adds. The first of a choice has the role and no text; one that only tells tokens, or the end, is empty.',
  },
);
export type ChunkDelta = Static<typeof ChunkDeltaSchema>;

const ChunkChoiceSchema = Type.Object(
  {
    index: Type.Integer({ minimum: 0 }),
    delta: ChunkDeltaSchema,
    logprobs: nullable(ChoiceLogprobsSchema, { description: "Exactly this chunk's tokens." }),
    finish_reason: nullable(FinishReasonSchema, { description: 'Null until the last chunk of the choice.' }),
    stop_reason: Type.Optional(StopReasonSchema),
    token_ids: Type.Optional(TokenIdsSchema),
    record_id: Type.Optional(RecordIdSchema),
    policy_token_spans: Type.Optional(PolicyTokenSpansSchema),
  },
  { title: 'ChunkChoice' },
);
/**
 * One choice of a chunk. `stop_reason`, `record_id` and `policy_token_spans` are present only if
 * `finish_reason` is not null.
 */
export type ChunkChoice = Static<typeof ChunkChoiceSchema>;

export const ChunkUsageSchema = Type.Object(
  {
    prompt_tokens: Type.Integer({ minimum: 0 }),
    total_tokens: Type.Integer({ minimum: 0 }),
    completion_tokens: Type.Integer({ minimum: 0 }),
    prompt_tokens_details: Type.Optional(CachedTokensSchema),
    completion_tokens_details: Type.Optional(ReasoningTokensSchema),
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
    prompt_text: Type.Optional(
      nullable(Type.String(), { description: 'The rendered prompt, only in the first chunk of a choice.' }),
    ),
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
