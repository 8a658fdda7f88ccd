import Type, { type Static } from 'typebox';

import type { InertField, JobFieldRow } from '../fields/job-field.ts';
import { TRAINING_FIELDS } from '../fields/training-fields.ts';
import { jobProperties } from './job-properties.ts';

/**
 * `experimental_config` of a training job. Every key may be left out or null; both mean the default of the trainer.
 * Unknown keys are accepted: newer clients send more. They are listed on the job as ignored.
 */
export const TrainingConfigSchema = Type.Object(jobProperties(TRAINING_FIELDS), { title: 'TrainingConfig' });
export type WireTrainingConfig = Static<typeof TrainingConfigSchema>;
export type TrainingConfigField = keyof WireTrainingConfig;

/** Keys that clients send for their own trainers and that change nothing here, with the value that asks for nothing. Other values are listed on the job as ignored. */
export const INERT_CONFIG_FIELDS = Object.fromEntries(
  Object.entries<JobFieldRow>(TRAINING_FIELDS).flatMap(([field, row]) => ('inert' in row ? [[field, row.inert]] : [])),
) as Readonly<Record<InertField<typeof TRAINING_FIELDS>, unknown>>;

/** Keys that have no effect, in the order sent: those that this version does not know, and inert ones that ask for something. */
export function ignoredConfigKeys(config: Readonly<Record<string, unknown>>): string[] {
  const inert: Readonly<Record<string, unknown>> = INERT_CONFIG_FIELDS;
  return Object.entries(config)
    .filter(([key, value]) => {
      if (!Object.hasOwn(TRAINING_FIELDS, key)) return true;
      return Object.hasOwn(inert, key) && value !== null && value !== undefined && value !== inert[key];
    })
    .map(([key]) => key);
}
