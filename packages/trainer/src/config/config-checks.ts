/** Checks of settings against the table of fields, which also defines the wire. */
import { type Form, type JobFieldTable, type PlainSettings, unfitness } from '@trainyard/protocol/fields';
import { TrainerError } from '../contract/errors.ts';

/**
 * @param input by internal names; `null` and `undefined` both mean absent
 * @throws {TrainerError} `trainer.config_invalid`
 */
export function plainSettings<Table extends JobFieldTable>(
  table: Table,
  input: Readonly<Record<string, unknown>>,
): PlainSettings<Table> {
  const settings: Record<string, unknown> = {};
  for (const field of Object.keys(table)) {
    const { name, form, default: standard } = table[field]!;
    if (name === undefined || standard === undefined) continue;
    const value = input[name] ?? null;
    // A default may be outside the wire's limits: 0, for example, if sent values must be above 0.
    settings[name] = value === null || value === standard ? standard : fit(field, form, value);
  }
  return settings as PlainSettings<Table>;
}

/** @throws {TrainerError} `trainer.config_invalid` with the wire field, its limit and the value */
export function fit<Value>(field: string, form: Form<unknown>, value: Value): Value {
  const rule = unfitness(form, value);
  if (rule === null) return value;
  throw refusal(field, `\`${field}\` must be ${rule}, got ${String(value)}`);
}

/** @param field wire name, used in the message */
export function refusal(field: string, message: string): TrainerError {
  return new TrainerError('trainer.config_invalid', message, { field });
}
