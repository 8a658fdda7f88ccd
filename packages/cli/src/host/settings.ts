import {
  defaultOf,
  isListSetting,
  resolveConfig,
  SETTING_NAMES,
  settingFlag,
  settingRow,
  type ServiceConfig,
  type SettingName,
} from '@trainyard/server/settings';
import type { Command } from 'commander';

import { withNote } from '../terminal/new-command.ts';

/** Values of the options from {@link addSettingOptions}; a switch is true, a list all its values. */
export type SettingOptions = { readonly [Name in SettingName]?: string | true | string[] } & {
  readonly config?: string;
};

/** Adds a flag for every setting, and `--config FILE`. */
export function addSettingOptions(command: Command): Command {
  command.optionsGroup('settings:');
  for (const name of SETTING_NAMES) {
    const row = settingRow(name);
    const flag = `${settingFlag(name)}${row.kind === 'switch' ? '' : ' <value>'}`;
    const help = `${row.help} (${defaultOf(name)})`.replaceAll('`', '');
    if (isListSetting(name)) command.option(flag, help, append);
    else command.option(flag, help);
  }
  command.option('--config <FILE>', 'JSON file with the same settings in camelCase (trainyard.json when it exists)');
  return withNote(
    command,
    'Flags override the environment (TRAINYARD_PORT and so on), which overrides the config file.',
  );
}

function append(value: string, values: string[] = []): string[] {
  return [...values, value];
}

/**
 * Resolves the configuration from options, the environment and the config file.
 *
 * @throws {ServerError} `server.config_invalid`
 */
export function settingsOf(options: SettingOptions): ServiceConfig {
  const flags: Partial<Record<SettingName, string | string[]>> = {};
  for (const name of SETTING_NAMES) {
    const value = options[name];
    if (value !== undefined) flags[name] = value === true ? 'on' : value;
  }
  return resolveConfig({ flags, environment: process.env, configPath: options.config ?? null });
}
