import {
  didYouMean,
  type JobFieldTable,
  SFT_EXPERIMENTAL_FIELDS,
  SFT_FIELDS,
  TRAINING_FIELDS,
} from '@trainyard/protocol/fields';

import type { JobWarning } from './job-warning.ts';

/** More keys are counted, not named. */
const MAX_NAMED = 10;

/** Paths in the format of a job's list of ignored keys. */
const KNOWN = {
  rl: actingFields(TRAINING_FIELDS),
  sft: [
    ...actingFields(SFT_FIELDS),
    ...actingFields(SFT_EXPERIMENTAL_FIELDS).map((field) => `experimental_config.${field}`),
  ],
} as const;

/**
 * Null if all settings have an effect.
 *
 * @param keys as listed by the job; those of a supervised job's `experimental_config` with its name as prefix
 */
export function ignoredSettingsWarning(kind: 'rl' | 'sft', keys: readonly string[]): JobWarning | null {
  if (keys.length === 0) return null;
  const named = keys.slice(0, MAX_NAMED).map((key) => `\`${key}\`${meant(key, KNOWN[kind])}`);
  const more = keys.length > MAX_NAMED ? ` and ${keys.length - MAX_NAMED} more` : '';
  const verb = keys.length === 1 ? 'has' : 'have';
  return {
    code: 'ignored_settings',
    message: `${named.join(', ')}${more} ${verb} no effect on this job`,
    value: keys.length,
    suggestion: `correct or remove ${keys.length === 1 ? 'this key' : 'these keys'} of ${kind === 'rl' ? '`experimental_config`' : '`config` and `experimental_config`'}`,
  };
}

/** Same name in the other object, or a similar one. */
function meant(key: string, known: readonly string[]): string {
  const name = key.slice(key.lastIndexOf('.') + 1);
  const namesake = known.find((path) => path !== key && path.slice(path.lastIndexOf('.') + 1) === name);
  return namesake === undefined ? didYouMean(key, known) : ` (did you mean ${namesake}?)`;
}

function actingFields(table: JobFieldTable): string[] {
  return Object.entries(table).flatMap(([field, { name }]) => (name === undefined ? [] : [field]));
}
