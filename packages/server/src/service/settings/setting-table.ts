import type { SettingRow, SettingValue } from './setting-row.ts';
import { DATA } from './tables/data.ts';
import { ENGINE } from './tables/engine.ts';
import { MODELS } from './tables/models.ts';
import { NETWORK } from './tables/network.ts';
import { OPERATION } from './tables/operation.ts';
import { REQUESTS } from './tables/requests.ts';
import { RETENTION } from './tables/retention.ts';
import { TRAINING } from './tables/training.ts';
import { VLLM } from './tables/vllm.ts';

/** All settings, by the headings of `docs/reference/settings.md`. */
const SETTING_GROUPS = {
  'Roles and network': NETWORK,
  Data: DATA,
  'Base models': MODELS,
  Engine: ENGINE,
  'vLLM servers': VLLM,
  Requests: REQUESTS,
  Retention: RETENTION,
  Training: TRAINING,
  Operation: OPERATION,
} as const satisfies Record<string, Record<string, SettingRow>>;

/** All settings by name. Type, validation, flags, variables, config file, `--help` and the page of the settings come from these rows. */
const SETTINGS = {
  ...NETWORK,
  ...DATA,
  ...MODELS,
  ...ENGINE,
  ...VLLM,
  ...REQUESTS,
  ...RETENTION,
  ...TRAINING,
  ...OPERATION,
} as const;

export type SettingName = keyof typeof SETTINGS;

export type SettingValues = { readonly [Name in SettingName]: SettingValue<(typeof SETTINGS)[Name]> };

/** Names that a command line may offer. */
export const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[];

export function settingRow(name: SettingName): SettingRow {
  return SETTINGS[name];
}

/** True for settings that can be given several times. */
export function isListSetting(name: SettingName): boolean {
  const row = settingRow(name);
  return row.kind === 'text' && row.isList === true;
}

export function settingFlag(name: SettingName): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** The environment variable of a setting, such as `TRAINYARD_DATA_DIR`. */
export function settingVariable(name: SettingName): string {
  return `TRAINYARD_${name.replace(/[A-Z]/g, '_$&').toUpperCase()}`;
}

/** The default of a setting in words; `none` if there is none. */
export function defaultOf(name: SettingName): string {
  const row = settingRow(name);
  return row.defaultText ?? String(row.default ?? 'none');
}

/** The headings of the page of the settings, with their settings in order. */
export const SETTING_HEADINGS = Object.entries(SETTING_GROUPS).map(([heading, rows]) => ({
  heading,
  names: Object.keys(rows) as SettingName[],
}));
