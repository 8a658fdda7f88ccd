import { readFileSync } from 'node:fs';

import { kebab, resolveConfig, SETTING_NAMES } from '@trainyard/server';
import { expect, test } from 'vitest';

import { serveCommand } from './serve.ts';

const page = readFileSync(new URL('../../../../docs/reference/settings.md', import.meta.url), 'utf8');
const rows = [...page.matchAll(/^\| `(--[a-z-]+)` \| `([A-Z_]+)`[^|]* \| ([^|]+) \| (.+) \|$/gm)].map(
  ([, flag = '', variable = '', standard = '', text = '']) => ({ flag, variable, standard: standard.trim(), text }),
);
const help = serveCommand().configureHelp({ helpWidth: 1_000 }).helpInformation();
const helpOf = (flag: string) => help.split('\n').find((line) => line.trimStart().startsWith(`${flag} `)) ?? '';

test('the page of the settings has every setting and no other', () => {
  expect(rows.map(({ flag }) => flag).toSorted()).toEqual(SETTING_NAMES.map((name) => `--${kebab(name)}`).toSorted());
});

test.each(rows)('$flag has the variable and the default of the code', ({ flag, variable, standard }) => {
  const name = SETTING_NAMES.find((known) => `--${kebab(known)}` === flag)!;
  // Read as this setting by the code: what it refuses names the variable, and what it takes changes the configuration.
  const withEmpty = resolveConfig({ flags: {}, environment: {}, configPath: null });
  const outcome = (value: string) => {
    try {
      return JSON.stringify(resolveConfig({ flags: {}, environment: { [variable]: value }, configPath: null }));
    } catch (error) {
      return (error as Error).message;
    }
  };
  const outcomes = ['17', 'off', 'fast', 'fcfs', 'control', 'hermes', 'on', 'tests/other', '*'].map(outcome);
  expect(
    outcomes.some((text) => text !== JSON.stringify(withEmpty)),
    `${variable} changes ${name}`,
  ).toBe(true);
  // No value, or one that another setting decides.
  if (/^(none|made up|from the file|as |what )/.test(standard)) return;
  expect(helpOf(flag)).toContain(standard);
});
