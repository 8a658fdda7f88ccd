import Type, { type Static } from 'typebox';

import { nullable } from '../shape/schema.ts';

const LogprobSchema = Type.Number({ description: 'Natural logarithm; −∞ is sent as −9999.' });

const TopLogprobSchema = Type.Object(
  {
    token: Type.String({ description: "The token's text, or `token_id:N`." }),
    logprob: LogprobSchema,
    bytes: Type.Array(Type.Integer({ minimum: 0, maximum: 255 }), {
      description:
        "UTF-8 of the token's own bytes, which may be a piece of a character. In `top_logprobs`, where tokens are written as `token_id:N`, the bytes of that text.",
    }),
  },
  { title: 'TopLogprob' },
);
export type TopLogprobEntry = Static<typeof TopLogprobSchema>;

export const TokenLogprobSchema = Type.Object(
  {
    ...TopLogprobSchema.properties,
    top_logprobs: Type.Array(TopLogprobSchema, {
      description: 'The sampled token first, then the most likely others; as many as `top_logprobs` asked for.',
    }),
  },
  { title: 'TokenLogprob', description: 'What a choice says about one sampled token.' },
);
export type TokenLogprobEntry = Static<typeof TokenLogprobSchema>;

export const ChoiceLogprobsSchema = Type.Object(
  {
    content: Type.Array(TokenLogprobSchema, {
      description: 'One entry per sampled token, the end-of-turn token included.',
    }),
  },
  { title: 'ChoiceLogprobs' },
);
export type ChoiceLogprobs = Static<typeof ChoiceLogprobsSchema>;

const PromptLogprobSchema = Type.Object(
  {
    logprob: LogprobSchema,
    rank: Type.Integer({ minimum: 1, description: '1 = the most likely of the vocabulary.' }),
    decoded_token: Type.String({ description: "The token's text." }),
  },
  { title: 'PromptLogprob' },
);
export type PromptLogprobEntry = Static<typeof PromptLogprobSchema>;

export const PromptLogprobsSchema = Type.Array(
  nullable(
    Type.Unsafe<Record<string, PromptLogprobEntry>>({ type: 'object', additionalProperties: PromptLogprobSchema }),
  ),
  {
    description:
      "One item a token of the prompt: null for the first, else the prompt's own token and then the most likely ones, by id. The order of the keys counts; JavaScript objects lose it.",
  },
);
