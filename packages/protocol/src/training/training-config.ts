import Type, { type Static } from 'typebox';

import type { InertField, JobFieldRow } from '../fields/job-field.ts';
import { TRAINING_FIELDS } from '../fields/training-fields.ts';
import { jobProperties } from './job-properties.ts';

/**
 * `experimental_config` of a training job. Every key may be omitted or null; both mean the trainer's default.
 * Unknown keys of newer clients are accepted, and listed on the job as ignored.
 */
export const TrainingConfigSchema = Type.Object(jobProperties(TRAINING_FIELDS), { title: 'TrainingConfig' });
export type WireTrainingConfig = Static<typeof TrainingConfigSchema>;
export type TrainingConfigField = keyof WireTrainingConfig;

/**
 * Keys for other trainers that have no effect here, with their neutral value. Other values are listed on the
 * job as ignored.
 */
export const INERT_CONFIG_FIELDS = Object.fromEntries(
  Object.entries<JobFieldRow>(TRAINING_FIELDS).flatMap(([field, row]) => ('inert' in row ? [[field, row.inert]] : [])),
) as Readonly<Record<InertField<typeof TRAINING_FIELDS>, unknown>>;

/** Keys without effect, in the order sent: unknown ones, and inert ones with another value. */
export function ignoredConfigKeys(config: Readonly<Record<string, unknown>>): string[] {
  const inert: Readonly<Record<string, unknown>> = INERT_CONFIG_FIELDS;
  return Object.entries(config)
    .filter(([key, value]) => {
      if (!Object.hasOwn(TRAINING_FIELDS, key)) return true;
      return Object.hasOwn(inert, key) && value !== null && value !== undefined && value !== inert[key];
    })
    .map(([key]) => key);
}
