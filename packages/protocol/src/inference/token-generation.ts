import Type, { type Static } from 'typebox';

import { ChatCompletionRequestSchema } from './chat-completion.ts';
import {
  ChunkUsageSchema,
  CompletionUsageSchema,
  FinishReasonSchema,
  RecordIdSchema,
  StopReasonSchema,
} from './chat-response.ts';
import { ChoiceLogprobsSchema, PromptLogprobsSchema } from './logprobs.ts';
import { nullable, optionalNullable } from '../shape/schema.ts';
import { samplingProperties } from './sampling-properties.ts';

/** POST /inference/v1/generate: token ids in, token ids out, as in vLLM. Unknown fields are refused. */

const chat = ChatCompletionRequestSchema.properties;
const TokenId = Type.Integer({ minimum: 0 });

/** Fields that shape the reply, as in a chat unless described otherwise. */
const TokenSamplingSchema = Type.Object(
  {
    ...samplingProperties('tokens'),
    max_tokens: optionalNullable(
      Type.Integer({
        minimum: 1,
        description: 'Maximum number of tokens to generate. Default: up to the end of the context.',
      }),
    ),
    logprobs: optionalNullable(
      Type.Integer({
        minimum: -1,
        description:
          'Return log-probabilities of the sampled tokens, with this many entries at each position. -1 means the whole vocabulary.',
      }),
    ),
    structured_outputs: chat.structured_outputs,
    skip_special_tokens: optionalNullable(
      Type.Boolean({
        description: 'Match stop strings in text without control tokens. Default true.',
      }),
    ),
    detokenize: optionalNullable(
      Type.Boolean({ description: 'The answer never has text. False is refused together with `stop`.' }),
    ),
    routed_experts_prompt_start: optionalNullable(
      Type.Integer({ minimum: 0, description: 'Has no effect: answers have no expert routing.' }),
    ),
    flat_logprobs: optionalNullable(Type.Boolean({ description: 'Has no effect on the answer.' })),
  },
  { title: 'TokenSampling' },
);

export const GenerateTokensRequestSchema = Type.Object(
  {
    token_ids: Type.Array(TokenId, { minItems: 1, description: 'The prompt.' }),
    sampling_params: TokenSamplingSchema,
    model: chat.model,
    stream: chat.stream,
    stream_options: chat.stream_options,
    request_id: chat.request_id,
    cache_salt: chat.cache_salt,
    priority: chat.priority,
  },
  { title: 'GenerateTokensRequest' },
);
export type GenerateTokensRequest = Static<typeof GenerateTokensRequestSchema>;

const Tokens = Type.Array(TokenId, { description: 'Sampled token ids, including the stop token.' });
const logprobs = nullable(ChoiceLogprobsSchema, {
  description: 'Null unless requested. Tokens are written as `token_id:N`.',
});

const GeneratedTokensSchema = Type.Object(
  {
    index: Type.Integer({ minimum: 0 }),
    token_ids: Tokens,
    logprobs,
    finish_reason: FinishReasonSchema,
    stop_reason: StopReasonSchema,
    routed_experts: Type.Null(),
    record_id: Type.Optional(RecordIdSchema),
  },
  { title: 'GeneratedTokens' },
);

const RequestIdSchema = Type.String({ description: 'From the header `X-Request-Id` or the body, else generated.' });

export const GenerateTokensAnswerSchema = Type.Object(
  {
    request_id: RequestIdSchema,
    choices: Type.Array(GeneratedTokensSchema, { description: 'Sorted by index.' }),
    prompt_logprobs: nullable(PromptLogprobsSchema, { description: 'Null unless requested.' }),
    kv_transfer_params: Type.Null(),
    usage: CompletionUsageSchema,
  },
  { title: 'GenerateTokensAnswer' },
);
export type GenerateTokensAnswer = Static<typeof GenerateTokensAnswerSchema>;

export const GenerateTokensChunkSchema = Type.Object(
  {
    request_id: RequestIdSchema,
    choices: Type.Array(
      Type.Object({
        index: Type.Integer({ minimum: 0 }),
        token_ids: Tokens,
        logprobs,
        finish_reason: nullable(FinishReasonSchema, { description: 'Null before the last chunk of the choice.' }),
        stop_reason: StopReasonSchema,
        record_id: Type.Optional(RecordIdSchema),
      }),
      { description: 'Empty in the usage chunk.' },
    ),
    usage: Type.Optional(ChunkUsageSchema),
  },
  { title: 'GenerateTokensChunk', description: 'One event of a stream; the last event is the literal `[DONE]`.' },
);
export type GenerateTokensChunk = Static<typeof GenerateTokensChunkSchema>;
