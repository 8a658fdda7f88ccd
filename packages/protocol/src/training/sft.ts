import Type, { type Static } from 'typebox';

import { SFT_EXPERIMENTAL_FIELDS, SFT_FIELDS } from '../fields/sft-fields.ts';
import { JsonObjectSchema, optionalNullable } from '../shape/schema.ts';
import { jobProperties } from './job-properties.ts';

/** Supervised training jobs: data and settings. */

/**
 * `config` of a supervised job. Every key may be omitted or null; unknown ones are accepted and listed on the
 * job as ignored.
 */
export const SftConfigSchema = Type.Object(
  { ...jobProperties(SFT_FIELDS), metric_logging: Type.Optional(Type.Unknown()) },
  { title: 'SftConfig' },
);
export type WireSftConfig = Static<typeof SftConfigSchema>;

/** `experimental_config` of a supervised job: extensions of this service. As lenient as `config`. */
export const SftExperimentalConfigSchema = Type.Object(jobProperties(SFT_EXPERIMENTAL_FIELDS), {
  title: 'SftExperimentalConfig',
});
export type WireSftExperimentalConfig = Static<typeof SftExperimentalConfigSchema>;

/** POST /preview/sft-training-jobs. */
export const CreateSftTrainingJobRequestSchema = Type.Object(
  {
    model_id: Type.String(),
    training_data_url: Type.String({ minLength: 1 }),
    held_out_data_url: optionalNullable(Type.String({ minLength: 1 })),
    config: optionalNullable(SftConfigSchema),
    experimental_config: optionalNullable(SftExperimentalConfigSchema),
  },
  { title: 'CreateSftTrainingJobRequest', additionalProperties: false },
);
export type CreateSftTrainingJobRequest = Static<typeof CreateSftTrainingJobRequestSchema>;

const ToolCallSchema = Type.Object({
  function: Type.Object({
    name: Type.String({ minLength: 1 }),
    arguments: Type.Optional(Type.Union([Type.String(), JsonObjectSchema])),
  }),
});

const MessageSchema = Type.Object({
  role: Type.String({ minLength: 1 }),
  content: optionalNullable(
    Type.Union([
      Type.String(),
      Type.Array(Type.Union([Type.String(), Type.Object({ type: Type.Optional(Type.String()) })])),
    ]),
  ),
  name: optionalNullable(Type.String()),
  tool_calls: optionalNullable(Type.Array(ToolCallSchema)),
  tool_call_id: optionalNullable(Type.String()),
  reasoning: optionalNullable(Type.String()),
  reasoning_content: optionalNullable(Type.String()),
  // As in OpenAI's fine-tuning files.
  weight: optionalNullable(Type.Unsafe<0 | 1>({ enum: [0, 1] })),
});

/** One line of the training data: a conversation with its tools. Other keys are accepted and ignored. */
export const SftLineSchema = Type.Object({
  messages: Type.Array(MessageSchema, { minItems: 1 }),
  tools: optionalNullable(Type.Array(JsonObjectSchema)),
  chat_template_kwargs: optionalNullable(JsonObjectSchema),
});
export type WireSftLine = Static<typeof SftLineSchema>;

/** Unknown keys of a supervised job's settings; those of `experimental_config` have its name as a prefix. */
export function ignoredSftConfigKeys(
  config: Readonly<Record<string, unknown>>,
  experimental: Readonly<Record<string, unknown>>,
): string[] {
  const unknown = (value: object, known: object) => Object.keys(value).filter((key) => !Object.hasOwn(known, key));
  return [
    ...unknown(config, SftConfigSchema.properties),
    ...unknown(experimental, SftExperimentalConfigSchema.properties).map((key) => `experimental_config.${key}`),
  ];
}
