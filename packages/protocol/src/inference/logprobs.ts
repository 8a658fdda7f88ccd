import Type, { type Static } from 'typebox';

import { nullable } from '../shape/schema.ts';

const LogprobSchema = Type.Number({ description: 'Natural logarithm; −∞ is sent as −9999.' });

const TopLogprobSchema = Type.Object(
  {
    token: Type.String({ description: "The token's text, or `token_id:N`." }),
    logprob: LogprobSchema,
    bytes: Type.Array(Type.Integer({ minimum: 0, maximum: 255 }), {
      description:
        'Bytes of the token in UTF-8, possibly a part of a character. In `top_logprobs`, if tokens are written as `token_id:N`, the bytes of that text.',
    }),
  },
  { title: 'TopLogprob' },
);
export type TopLogprobEntry = Static<typeof TopLogprobSchema>;

export const TokenLogprobSchema = Type.Object(
  {
    ...TopLogprobSchema.properties,
    top_logprobs: Type.Array(TopLogprobSchema, {
      description: 'The sampled token, then the most likely others, as many as `top_logprobs` requests.',
    }),
  },
  { title: 'TokenLogprob', description: 'Log-probabilities of one sampled token.' },
);
export type TokenLogprobEntry = Static<typeof TokenLogprobSchema>;

export const ChoiceLogprobsSchema = Type.Object(
  {
    content: Type.Array(TokenLogprobSchema, {
      description: 'One entry per sampled token, including the end-of-turn token.',
    }),
  },
  { title: 'ChoiceLogprobs' },
);
export type ChoiceLogprobs = Static<typeof ChoiceLogprobsSchema>;

const PromptLogprobSchema = Type.Object(
  {
    logprob: LogprobSchema,
    rank: Type.Integer({ minimum: 1, description: 'Rank in the vocabulary; 1 is the most likely token.' }),
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
      'One item per prompt token: null for the first; otherwise the prompt token, then the most likely ones, keyed by id. The order of the keys matters; JavaScript objects lose it.',
  },
);
