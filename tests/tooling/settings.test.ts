/** The settings page, the flags and the command line's help come from one table. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

import { resolveConfig, SETTING_NAMES, settingFlag, settingRow, settingVariable } from '@trainyard/server';
import { expect, test } from 'vitest';

import { serveFlagsModule, settingsPage } from '../../site/contents/settings-page.ts';
import { runProgram } from './support/run-script.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(resolve(ROOT, path), 'utf8');
const page = read('docs/reference/settings.md');

test('the page and the list of flags are those of the table; npm run format writes them', () => {
  expect(settingsPage(page)).toBe(page);
  expect(serveFlagsModule()).toBe(read('scripts/lib/serve-flags.mjs'));
});

test('the page has every setting once', () => {
  const flags = [...page.matchAll(/^\| `(--[a-z0-9-]+)` \|/gm)].map(([, flag]) => flag!);
  expect(flags.toSorted()).toEqual(SETTING_NAMES.map(settingFlag).toSorted());
});

test('the help of the command has every setting with its default', async () => {
  const { output } = await runProgram(process.execPath, [
    '--conditions=@trainyard/source',
    resolve(ROOT, 'packages/cli/src/main.ts'),
    'serve',
    '--help',
  ]);
  const words = output.replaceAll(/\s+/g, ' ');
  for (const name of SETTING_NAMES) expect(words).toContain(`${settingFlag(name)} `);
  expect(words).toContain('TCP port, 0 = any free one (8420)');
  expect(words).not.toContain('`');
});

test.each(SETTING_NAMES)('%s is read from its flag, its variable and the config file alike', (name) => {
  const row = settingRow(name);
  const values = { integer: ['17'], number: ['0.5', '17'], switch: ['on'], choice: [], text: [] }[row.kind];
  const texts = [
    'off',
    '1d',
    'last=3',
    'https://host.example/bucket',
    'postgres://u@h/d',
    'api',
    '9100',
    '/tmp/other',
    'name',
  ];
  const candidates = row.kind === 'choice' ? row.values.toReversed() : row.kind === 'text' ? texts : values;
  const outcome = (sources: Partial<Parameters<typeof resolveConfig>[0]>): string => {
    try {
      return JSON.stringify(resolveConfig({ flags: {}, environment: {}, configPath: null, ...sources }));
    } catch (error) {
      return (error as Error).message;
    }
  };
  const before = outcome({});
  const changed = candidates.filter((value) => {
    const byFlag = outcome({ flags: { [name]: value } });
    const byVariable = outcome({ environment: { [settingVariable(name)]: value } });
    // Messages contain their source; results are equal.
    if (byFlag.startsWith('{') || byVariable.startsWith('{')) expect(byVariable).toBe(byFlag);
    return byFlag !== before;
  });
  expect(changed.length).toBeGreaterThan(0);
});
