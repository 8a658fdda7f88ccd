import { shown } from '@trainyard/native';
import { ModelFolderError } from './model-folder-error.ts';

export const CONFIG_FILE = 'config.json';

export type Fields = Readonly<Record<string, unknown>>;

type Range = readonly [least: number, most: number];

/** @throws {ModelFolderError} with the field, its value and the limit */
export function whole(fields: Fields, name: string, [least, most]: Range, otherwise?: number): number {
  const value = fields[name] ?? otherwise;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw invalid(name, `a whole number from ${least} to ${most}`, value);
}

/** @throws {ModelFolderError} with the field, its value and the limit */
export function real(fields: Fields, name: string, [least, most]: Range, otherwise?: number): number {
  const value = fields[name] ?? otherwise;
  if (typeof value === 'number' && value >= least && value <= most) return value;
  throw invalid(name, `a number from ${least} to ${most}`, value);
}

/** @throws {ModelFolderError} with the field and its value */
export function flag(fields: Fields, name: string, otherwise = false): boolean {
  const value = fields[name] ?? otherwise;
  if (typeof value === 'boolean') return value;
  throw invalid(name, 'true or false', value);
}

export const invalid = (name: string, needed: string, value: unknown) =>
  new ModelFolderError(`\`${name}\` in ${CONFIG_FILE} must be ${needed}, got ${shown(value)}`);

/** Shortest number with the float32 value of a GGUF file: mostly the original one, which has at most seven digits. */
export const decimal = (value: number): number =>
  [7, 8]
    .map((digits) => Number(value.toPrecision(digits)))
    .find((short) => Math.fround(short) === Math.fround(value)) ?? Number(value.toPrecision(9));
