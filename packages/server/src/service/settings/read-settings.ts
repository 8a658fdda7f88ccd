import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

import { settingFault } from './setting-fault.ts';
import { type ModelEntry, readModelList, readModelText, splitModelTexts } from './model-settings.ts';
import {
  isListSetting,
  SETTING_NAMES,
  settingFlag,
  type SettingName,
  settingRow,
  type SettingValues,
  settingVariable,
} from './setting-table.ts';

export interface ConfigSources {
  /** Raw values by setting name; several for a list setting. */
  readonly flags: Partial<Record<SettingName, string | readonly string[]>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /**
   * A JSON file with the setting names as keys; `null` = none requested, then `trainyard.json` is read if it
   * exists.
   */
  readonly configPath: string | null;
}

export interface ReadSettings {
  /** With defaults. `model` and `vllm` are null: see `models` and `servers`. */
  readonly values: SettingValues;
  /** Settings given by a source, in the order of the table. */
  readonly given: ReadonlySet<SettingName>;
  readonly models: readonly ModelEntry[];
  /** vLLM servers with their source, for messages. */
  readonly servers: readonly { readonly text: string; readonly source: string }[];
}

interface ConfigFile {
  readonly path: string;
  readonly values: Readonly<Record<string, unknown>>;
}

interface Found {
  readonly raw: unknown;
  /** Source in messages, such as `flag --port`. */
  readonly source: string;
  readonly from: 'flag' | 'variable' | 'file';
}

/**
 * Reads all settings: flags override the environment, which overrides the file, which overrides the defaults.
 * @throws {ServerError} `server.config_invalid`, with the setting, its source, the value and the allowed
 * values
 */
export function readSettings(sources: ConfigSources): ReadSettings {
  const file = readConfigFile(sources.configPath);
  const found = new Map<SettingName, Found>();
  for (const name of SETTING_NAMES) {
    const one = findSetting(name, sources, file);
    if (one !== null) found.set(name, one);
  }
  const values = Object.fromEntries(
    SETTING_NAMES.map((name) => {
      const one = isListSetting(name) ? undefined : found.get(name);
      return [name, one === undefined ? (settingRow(name).default ?? null) : checked(name, one.raw, one.source)];
    }),
  ) as unknown as SettingValues;
  return {
    values,
    given: new Set(found.keys()),
    models: modelEntries(found.get('model')),
    servers: serverTexts(found.get('vllm')),
  };
}

function findSetting(name: SettingName, { flags, environment }: ConfigSources, file: ConfigFile): Found | null {
  const flag = flags[name];
  if (flag !== undefined) return { raw: flag, source: `flag ${settingFlag(name)}`, from: 'flag' };
  const variable = settingVariable(name);
  const text = environment[variable];
  if (text !== undefined && text !== '')
    return { raw: text, source: `environment variable ${variable}`, from: 'variable' };
  const value = file.values[name];
  return value === undefined ? null : { raw: value, source: `"${name}" in ${file.path}`, from: 'file' };
}

function modelEntries(found: Found | undefined): ModelEntry[] {
  if (found === undefined) return [];
  const { raw, source, from } = found;
  if (from === 'file') return readModelList(raw, source, checked);
  const texts = from === 'flag' ? [raw].flat() : splitModelTexts(raw as string);
  return texts.map((text) => readModelText(checked('model', text, source) as string, source));
}

function serverTexts(found: Found | undefined): { text: string; source: string }[] {
  if (found === undefined) return [];
  const { raw, source, from } = found;
  const texts = from === 'variable' ? (raw as string).split(',') : [raw].flat();
  return texts.map((text) => ({ text: checked('vllm', text, source) as string, source }));
}

function readConfigFile(configPath: string | null): ConfigFile {
  const path = resolve(configPath ?? 'trainyard.json');
  let content: string;
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    if (configPath === null && (error as NodeJS.ErrnoException).code === 'ENOENT') return { path, values: {} };
    throw settingFault(`the config file ${path} cannot be read: ${(error as Error).message}`);
  }
  let values: unknown;
  try {
    values = JSON.parse(content);
  } catch (error) {
    throw settingFault(`the config file ${path} is not JSON: ${(error as Error).message}`);
  }
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw settingFault(`the config file ${path} must hold one JSON object`);
  const unknown = Object.keys(values).filter((key) => !(SETTING_NAMES as string[]).includes(key));
  if (unknown.length > 0)
    throw settingFault(
      `the config file ${path} has unknown settings: ${unknown.join(', ')}; known: ${SETTING_NAMES.join(', ')}`,
    );
  return { path, values: values as Record<string, unknown> };
}

/** Validated value of a setting. @throws {ServerError} `server.config_invalid` */
function checked(name: SettingName, value: unknown, source: string): string | number {
  const row = settingRow(name);
  const isSecret = row.kind === 'text' && row.isSecret === true;
  const refuse = (expected: string) =>
    settingFault(`${source} must be ${expected}, got ${isSecret ? 'something else' : JSON.stringify(value)}`);
  if (row.kind === 'integer' || row.kind === 'number') {
    const numeric = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
    const isWhole = row.kind === 'number' || Number.isInteger(numeric);
    const { min, max } = row;
    if (typeof numeric !== 'number' || !Number.isFinite(numeric) || !isWhole || numeric < min || numeric > max)
      throw refuse(`${row.kind === 'integer' ? 'a whole number' : 'a number'} from ${min} to ${max}`);
    return numeric;
  }
  if (typeof value !== 'string' || value === '') throw refuse('a non-empty string');
  if (row.kind !== 'text') {
    const values = row.kind === 'choice' ? row.values : ['on', 'off'];
    if (!values.includes(value)) throw refuse(`one of ${values.join(', ')}`);
    return value;
  }
  if (row.pattern?.test(value) === false || row.isValid?.(value) === false)
    throw refuse(row.form ?? `text of the form ${row.pattern?.source}`);
  return value;
}
