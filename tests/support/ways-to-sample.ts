import type { scoredGroup } from './groups.ts';

type Fields = NonNullable<NonNullable<Parameters<typeof scoredGroup>[2]>['fields']>;

export const CONSTRAINT = { structured_outputs: { regex: '(yes|no), (red|green|blue)' } };
/** Ways to sample other than from the model's own distribution. */
export const WAYS_TO_SAMPLE: Readonly<Record<string, Fields>> = {
  'a constraint': CONSTRAINT,
  'a JSON schema': {
    response_format: {
      type: 'json_schema',
      json_schema: {
        name: 'word',
        schema: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] },
      },
    },
  } as Fields,
  temperature: { temperature: 0.5 },
  top_p: { top_p: 0.7 },
  'top_k and min_p, at a higher temperature': { top_k: 20, min_p: 0.05, temperature: 1.4 },
  'penalties and a bias': {
    repetition_penalty: 1.3,
    presence_penalty: 0.5,
    frequency_penalty: 0.3,
    logit_bias: { '198': 4, '28': -5 },
  },
  'all of it': { ...CONSTRAINT, temperature: 0.7, top_p: 0.9, repetition_penalty: 1.2 },
};
