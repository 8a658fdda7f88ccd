import Type, { type Static } from 'typebox';

import { ErrorObjectSchema } from '../shape/errors.ts';
import { ToolCallSchema } from './chat-message.ts';
import { ChoiceLogprobsSchema, PromptLogprobsSchema } from './logprobs.ts';
import { nullable } from '../shape/schema.ts';

/** Answer of a chat completion: whole, or as chunks of a stream. */

export const FinishReasonSchema = Type.Enum(['stop', 'length', 'tool_calls', 'repetition', 'abort'], {
  description:
    'Reason why the choice ended. `tool_calls`: it stopped by itself after calling tools (not used for a tool that the request named).',
});
export type WireFinishReason = Static<typeof FinishReasonSchema>;

export const StopReasonSchema = Type.Union([Type.String(), Type.Integer(), Type.Null()], {
  description:
    'Stop string or stop token id that ended the choice, or `repetition_detected`. Null for the end of turn and the length limit.',
});

export const TokenIdsSchema = nullable(Type.Array(Type.Integer({ minimum: 0 })), {
  description:
    'All sampled token ids, including the stop token. Null unless requested, and in replies that may contain reasoning that the request hides.',
});

export const RecordIdSchema = Type.String({
  description:
    'Id of the sampling record. If a trajectory has a choice without tokens and log-probabilities, training takes them from this record. Absent for the base model and with `use_beam_search`.',
});

const PolicyTokenSpanSchema = Type.Object(
  {
    start_token: Type.Integer({ minimum: 0, description: 'Index of the first sampled token of the span.' }),
    end_token: Type.Integer({ minimum: 1, description: 'Index after the last token of the span.' }),
    generation_id: Type.String({ description: "The answer's id." }),
    policy_version: Type.Integer({ minimum: 0, description: 'Step of the model that sampled the tokens.' }),
    lora_slot: Type.String({ description: "The answer's `model`." }),
    update_seq: Type.Integer({ minimum: 0, description: 'Same as the step: the weights of a step never change.' }),
  },
  { title: 'PolicyTokenSpan' },
);
export type PolicyTokenSpan = Static<typeof PolicyTokenSpanSchema>;

const PolicyTokenSpansSchema = Type.Array(PolicyTokenSpanSchema, {
  description:
    'Spans of tokens with the step of the model that sampled them, in the format of ART evaluations. Always one span, since one step samples the whole answer. Present with the `token_ids` of trained models.',
});

const RoleSchema = Type.String({
  description: "`assistant`, or the last message's role with `add_generation_prompt: false`.",
});

const AssistantMessageSchema = Type.Object(
  {
    role: RoleSchema,
    content: nullable(Type.String(), {
      description:
        'Text of the reply, preceded by the last message with `echo`. Null if there is only reasoning or only calls; empty if `tool_choice` is `required` or names a tool.',
    }),
    refusal: Type.Null(),
    annotations: Type.Null(),
    audio: Type.Null(),
    function_call: Type.Null(),
    tool_calls: Type.Optional(Type.Array(ToolCallSchema, { description: 'Absent if no tool was called.' })),
    reasoning: nullable(Type.String(), {
      description: 'Text of the reasoning, if it is separate. Null with `include_reasoning: false`.',
    }),
    reasoning_content: Type.Optional(
      nullable(Type.String(), { description: 'Older name of the same field, if the request asks for it.' }),
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
        'Null unless requested; on by default for trained models. Null in replies that may contain reasoning that the request hides.',
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
  cached_tokens: Type.Integer({ minimum: 0, description: 'Prompt tokens found in the cache.' }),
});

const ReasoningTokensSchema = Type.Object({
  reasoning_tokens: Type.Integer({ minimum: 0, description: 'Completion tokens of reasoning, hidden or not.' }),
});

export const CompletionUsageSchema = Type.Object(
  {
    prompt_tokens: Type.Integer({
      minimum: 0,
      description: 'Tokens of the whole prompt, counted once even for several choices.',
    }),
    total_tokens: Type.Integer({ minimum: 0 }),
    completion_tokens: Type.Integer({ minimum: 0, description: 'Sum over all choices.' }),
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
  description:
    "Identifies the exact weights: `trainyard-` and 8 hex digits of the adapter's digest, or `trainyard-base`.",
});

export const ChatCompletionSchema = Type.Object(
  {
    id: Type.String({ description: '`chatcmpl-` followed by the request id.' }),
    object: Type.Literal('chat.completion'),
    created: CreatedSchema,
    model: AnswerModelSchema,
    choices: Type.Array(ChatCompletionChoiceSchema, { description: 'Sorted by index.' }),
    service_tier: Type.Null(),
    system_fingerprint: FingerprintSchema,
    usage: CompletionUsageSchema,
    prompt_logprobs: nullable(PromptLogprobsSchema, { description: 'Null unless requested.' }),
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
    description: 'Answer to a request without `stream`. Every key is present; unknown values are null.',
  },
);
export type ChatCompletion = Static<typeof ChatCompletionSchema>;

const ToolCallDeltaSchema = Type.Object(
  {
    index: Type.Integer({ minimum: 0, description: 'Index of the call in the choice.' }),
    id: Type.Optional(Type.String({ description: 'With the first piece of a call only.' })),
    type: Type.Optional(Type.Literal('function', { description: 'With the first piece of a call only.' })),
    function: Type.Object({
      name: Type.Optional(
        nullable(Type.String(), {
          description: 'With the first piece of a call; in later ones null (`tool_choice: "required"`) or absent.',
        }),
      ),
      arguments: Type.Optional(Type.String({ description: 'Next piece of the JSON text.' })),
    }),
  },
  { title: 'ToolCallDelta' },
);
export type ToolCallDeltaEntry = Static<typeof ToolCallDeltaSchema>;

const ChunkDeltaSchema = Type.Object(
  {
    role: Type.Optional(RoleSchema),
    content: Type.Optional(
      nullable(Type.String(), { description: 'Text that this chunk adds. Null in a chunk with pieces of calls.' }),
    ),
    reasoning: Type.Optional(Type.String({ description: 'Reasoning that this chunk adds.' })),
    reasoning_content: Type.Optional(
      Type.String({ description: 'Older name of the same field, if the request asks for it.' }),
    ),
    tool_calls: Type.Optional(Type.Array(ToolCallDeltaSchema, { description: 'Pieces of calls, in order.' })),
  },
  {
    title: 'ChunkDelta',
    description:
      'Text, reasoning and calls that a chunk adds. The first delta of a choice has the role and no text. It is empty if the chunk only has tokens or the end.',
  },
);
export type ChunkDelta = Static<typeof ChunkDeltaSchema>;

const ChunkChoiceSchema = Type.Object(
  {
    index: Type.Integer({ minimum: 0 }),
    delta: ChunkDeltaSchema,
    logprobs: nullable(ChoiceLogprobsSchema, { description: 'Exactly the tokens of this chunk.' }),
    finish_reason: nullable(FinishReasonSchema, { description: 'Null before the last chunk of the choice.' }),
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
      nullable(Type.Array(Type.Integer({ minimum: 0 })), {
        description: 'Present only in the first chunk of a choice.',
      }),
    ),
    prompt_text: Type.Optional(
      nullable(Type.String(), { description: 'Rendered prompt. Present only in the first chunk of a choice.' }),
    ),
    system_fingerprint: Type.Optional(FingerprintSchema),
    usage: Type.Optional(ChunkUsageSchema),
  },
  { title: 'ChatCompletionChunk', description: 'One event of a stream; the last event is the literal `[DONE]`.' },
);
export type ChatCompletionChunk = Static<typeof ChatCompletionChunkSchema>;

export const StreamErrorSchema = Type.Object(
  { error: ErrorObjectSchema },
  { title: 'StreamError', description: 'Last event of a stream that fails after its headers; `[DONE]` follows.' },
);
export type StreamError = Static<typeof StreamErrorSchema>;
