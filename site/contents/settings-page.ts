import {
  defaultOf,
  SETTING_HEADINGS,
  SETTING_NAMES,
  settingFlag,
  type SettingName,
  settingRow,
  settingVariable,
} from '@trainyard/server';

/** Flags of `trainyard serve` that are not settings. */
const OTHER_FLAGS = { switches: ['help', 'json'], values: ['config'] };

/**
 * The settings page with generated tables under its headings; other text stays.
 * @param page `docs/reference/settings.md`
 * @throws if a heading or its table is missing
 */
export function settingsPage(page: string): string {
  return SETTING_HEADINGS.reduce((text, { heading, names }) => {
    const table = new RegExp(`(^## ${heading}\\n(?:(?!##|\\|).*\\n)*)(?:\\|.*\\n)+`, 'm');
    if (!table.test(text)) throw new Error(`docs/reference/settings.md has no table under "## ${heading}"`);
    return text.replace(table, (_, start: string) => start + tableOf(names));
  }, page);
}

function tableOf(names: readonly SettingName[]): string {
  const rows = names.map((name) => {
    const { help, more } = settingRow(name);
    const meaning = more === undefined ? help : `${help}; ${more}`;
    return `| \`${settingFlag(name)}\` | \`${settingVariable(name)}\` | ${defaultOf(name)} | ${meaning} |\n`;
  });
  return `| flag | variable | default | meaning |\n|---|---|---|---|\n${rows.join('')}`;
}

/** Module with the flags of `trainyard serve`, for the script that runs before anything is installed. */
export function serveFlagsModule(): string {
  const isSwitch = (name: SettingName) => settingRow(name).kind === 'switch';
  const flagsOf = (names: readonly SettingName[]) => names.map((name) => settingFlag(name).slice(2));
  const switches = [...OTHER_FLAGS.switches, ...flagsOf(SETTING_NAMES.filter(isSwitch))].toSorted();
  const values = [...OTHER_FLAGS.values, ...flagsOf(SETTING_NAMES.filter((name) => !isSwitch(name)))].toSorted();
  // Formatted like the formatter's output: on one line if it fits.
  const field = (name: string, flags: readonly string[]) => {
    const line = `  ${name}: [${flags.map((flag) => `'${flag}'`).join(', ')}],\n`;
    return line.length <= 121 ? line : `  ${name}: [\n${flags.map((flag) => `    '${flag}',\n`).join('')}  ],\n`;
  };
  return `/**
 * Flags of \`trainyard serve\`, for a check that runs before packages are installed. \`npm run format\` writes this file.
 *
 * @type {Readonly<{ switches: readonly string[], values: readonly string[] }>}
 */
export const SERVE_FLAGS = {
${field('switches', switches)}${field('values', values)}};
`;
}
