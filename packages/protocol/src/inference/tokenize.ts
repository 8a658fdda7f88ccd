import Type, { type Static } from 'typebox';

import { ChatCompletionRequestSchema } from './chat-completion.ts';
import { nullable, optionalNullable } from '../shape/schema.ts';

/** POST /tokenize and /detokenize: converts text or a conversation to ids, and back. */

const chat = ChatCompletionRequestSchema.properties;

/** Request with exactly one of `prompt` and `messages`. */
export const TokenizeRequestSchema = Type.Object(
  {
    model: chat.model,
    prompt: Type.Optional(Type.String({ description: 'Text. The text of a control token is read as that token.' })),
    messages: Type.Optional(
      Type.Array(chat.messages.items, { description: "A conversation, rendered by the model's chat template." }),
    ),
    tools: chat.tools,
    documents: chat.documents,
    chat_template_kwargs: chat.chat_template_kwargs,
    reasoning_effort: chat.reasoning_effort,
    add_generation_prompt: Type.Optional(
      Type.Boolean({ description: 'End the conversation with the start of the reply. Default true.' }),
    ),
    add_special_tokens: Type.Optional(
      Type.Boolean({
        description:
          'Put the beginning-of-text token of the model, if it has one, first. Default true for `prompt`, false for `messages`.',
      }),
    ),
    continue_final_message: Type.Optional(Type.Boolean()),
    chat_template: optionalNullable(Type.String()),
    return_token_strs: optionalNullable(Type.Boolean({ description: 'Also return the text of each token.' })),
  },
  { title: 'TokenizeRequest' },
);
export type TokenizeRequest = Static<typeof TokenizeRequestSchema>;

export const TokenizeResponseSchema = Type.Object(
  {
    count: Type.Integer({ minimum: 0 }),
    max_model_len: Type.Integer({
      minimum: 1,
      description: 'Maximum sequence length of the model (prompt and reply), in tokens.',
    }),
    tokens: Type.Array(Type.Integer({ minimum: 0 })),
    token_strs: nullable(Type.Array(Type.String()), { description: 'Null unless `return_token_strs` is true.' }),
  },
  { title: 'TokenizeResponse' },
);
export type TokenizeResponse = Static<typeof TokenizeResponseSchema>;

/** Maximum ids of one request, far more than a context. */
export const MAX_DETOKENIZE_TOKENS = 1_000_000;

export const DetokenizeRequestSchema = Type.Object(
  {
    model: chat.model,
    tokens: Type.Array(Type.Integer({ minimum: 0 }), {
      maxItems: MAX_DETOKENIZE_TOKENS,
      description: 'Token ids.',
    }),
  },
  { title: 'DetokenizeRequest' },
);
export type DetokenizeRequest = Static<typeof DetokenizeRequestSchema>;

export const DetokenizeResponseSchema = Type.Object(
  { prompt: Type.String({ description: 'Text of the ids, including control tokens.' }) },
  { title: 'DetokenizeResponse' },
);
export type DetokenizeResponse = Static<typeof DetokenizeResponseSchema>;

export const TokenizerInfoQuerySchema = Type.Object(
  { model: Type.Optional(Type.String({ description: 'Any name of a model. Default: the default base model.' })) },
  { title: 'TokenizerInfoQuery' },
);
export type TokenizerInfoQuery = Static<typeof TokenizerInfoQuerySchema>;

export const TokenizerInfoSchema = Type.Object(
  {
    tokenizer_class: Type.String({
      description: 'Tokenizer class of transformers for the same vocabulary.',
    }),
    model_max_length: Type.Integer({
      minimum: 1,
      description: 'Maximum sequence length (prompt and reply), in tokens.',
    }),
    chat_template: nullable(Type.String(), { description: 'Chat template of the model; null if it has none.' }),
    bos_token: nullable(Type.String(), { description: 'Beginning-of-text token; null if there is none.' }),
    eos_token: nullable(Type.String(), { description: 'End-of-turn token.' }),
    pad_token: Type.Null(),
    add_bos_token: Type.Boolean({ description: 'True if texts are tokenised with a leading `bos_token`.' }),
  },
  { title: 'TokenizerInfo' },
);
export type TokenizerInfo = Static<typeof TokenizerInfoSchema>;
