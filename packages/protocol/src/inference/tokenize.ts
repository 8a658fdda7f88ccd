import Type, { type Static } from 'typebox';

import { ChatCompletionRequestSchema } from './chat-completion.ts';
import { nullable, optionalNullable } from '../shape/schema.ts';

/** POST /tokenize and /detokenize: converts text or a conversation to ids, and back. */

const chat = ChatCompletionRequestSchema.properties;

/** Request with exactly one of `prompt` and `messages`. */
export const TokenizeRequestSchema = Type.Object(
  {
    model: chat.model,
    prompt: Type.Optional(Type.String({ description: 'Text; the texts of control tokens become those tokens.' })),
    messages: Type.Optional(
      Type.Array(chat.messages.items, { description: "A conversation, rendered by the model's chat template." }),
    ),
    tools: chat.tools,
    documents: chat.documents,
    chat_template_kwargs: chat.chat_template_kwargs,
    reasoning_effort: chat.reasoning_effort,
    add_generation_prompt: Type.Optional(
      Type.Boolean({ description: 'Default true: a conversation ends where the reply begins.' }),
    ),
    add_special_tokens: Type.Optional(
      Type.Boolean({
        description:
          'Put the token in front that begins every text of the model, if it has one. Default true for `prompt`, false for `messages`.',
      }),
    ),
    continue_final_message: Type.Optional(Type.Boolean()),
    chat_template: optionalNullable(Type.String()),
    return_token_strs: optionalNullable(Type.Boolean({ description: 'Answer with the text of each token too.' })),
  },
  { title: 'TokenizeRequest' },
);
export type TokenizeRequest = Static<typeof TokenizeRequestSchema>;

export const TokenizeResponseSchema = Type.Object(
  {
    count: Type.Integer({ minimum: 0 }),
    max_model_len: Type.Integer({
      minimum: 1,
      description: 'Longest sequence of the model, prompt and reply together.',
    }),
    tokens: Type.Array(Type.Integer({ minimum: 0 })),
    token_strs: nullable(Type.Array(Type.String()), { description: 'Null unless `return_token_strs` asks for it.' }),
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
      description: 'Ids of the vocabulary.',
    }),
  },
  { title: 'DetokenizeRequest' },
);
export type DetokenizeRequest = Static<typeof DetokenizeRequestSchema>;

export const DetokenizeResponseSchema = Type.Object(
  { prompt: Type.String({ description: 'The text of the ids, control tokens included.' }) },
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
      description: 'Of transformers: what reads the same vocabulary from a file of its own.',
    }),
    model_max_length: Type.Integer({ minimum: 1, description: 'Longest sequence, prompt and reply together, tokens.' }),
    chat_template: nullable(Type.String(), { description: "The model's own; null when it has none." }),
    bos_token: nullable(Type.String(), { description: 'The token that begins every text; null when there is none.' }),
    eos_token: nullable(Type.String(), { description: 'The token that ends a reply.' }),
    pad_token: Type.Null(),
    add_bos_token: Type.Boolean({ description: 'Whether texts are tokenised with `bos_token` in front.' }),
  },
  { title: 'TokenizerInfo' },
);
export type TokenizerInfo = Static<typeof TokenizerInfoSchema>;
