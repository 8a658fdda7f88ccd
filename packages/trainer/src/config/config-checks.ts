/** Checks of settings against the table of fields that the wire is checked against, too: its limits stand nowhere else. */
import { type Form, type JobFieldTable, type PlainSettings, unfitness } from '@trainyard/protocol/fields';
import { TrainerError } from '../contract/errors.ts';

/**
 * The settings that follow from one field each: as asked for, or their default.
 *
 * @param input by the names within; `null` and `undefined` both mean absent
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
    // A default fits, also where the wire has no word for it: 0, say, of what must be above 0 when it is sent.
    settings[name] = value === null || value === standard ? standard : fit(field, form, value);
  }
  return settings as PlainSettings<Table>;
}

/** A value that fits its form. @throws {TrainerError} `trainer.config_invalid` with the field on the wire, its limit and the value */
export function fit<Value>(field: string, form: Form<unknown>, value: Value): Value {
  const rule = unfitness(form, value);
  if (rule === null) return value;
  throw refusal(field, `\`${field}\` must be ${rule}, got ${String(value)}`);
}

/** @param field on the wire, which the message names */
export function refusal(field: string, message: string): TrainerError {
  return new TrainerError('trainer.config_invalid', message, { field });
}
