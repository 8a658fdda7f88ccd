/**
 * Commands of the pages that need other machines are not run: each of our flags in them is checked by its
 * parser, and each configuration is resolved.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { COMMANDS } from '@trainyard/cli';
import { resolveConfig, SETTING_NAMES, settingFlag, type SettingName } from '@trainyard/server';
import { expect, test } from 'vitest';

import { blocksOf } from '../support/doc-blocks.ts';
import { REPOSITORY } from './support/run-script.ts';

const PAGES = ['docs/guide/scaling.md', 'docs/guide/operations.md', 'examples/kubernetes/README.md'];
/** Variables that the pages set in files. */
const GIVEN = { TRAINYARD_DATABASE: 'postgres://trainyard@db/trainyard', TRAINYARD_ENGINE_SECRET: 'x'.repeat(64) };

interface Line {
  readonly at: string;
  readonly words: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

/** Commands of `trainyard`, without the variables before them and the rest after `|`, `&` and `#`. */
function linesOf(page: string): Line[] {
  return blocksOf(page)
    .filter(({ language }) => language === 'sh')
    .flatMap(({ text, line }) =>
      text
        .replaceAll('\\\n', ' ')
        .split('\n')
        .flatMap((command): Line[] => {
          const words = [...command.matchAll(/"[^"]*"|'[^']*'|\S+/g)].map(([word]) =>
            word.replaceAll(/^["']|["']$/g, ''),
          );
          const start = words.findIndex((word) => word === 'trainyard');
          if (start === -1 || words.slice(0, start).some((word) => word !== 'npx' && !word.includes('='))) return [];
          const before = words.slice(0, start).filter((word) => word !== 'npx');
          const environment = Object.fromEntries(before.map((word) => word.split('=', 2) as [string, string]));
          const end = words.findIndex((word) => ['|', '||', '&', '&&', '#'].includes(word) || word.startsWith('#'));
          const given = words.slice(start + 1, end === -1 ? undefined : end);
          return [{ at: `${page}:${line}`, words: given, environment }];
        }),
    );
}

const LINES = PAGES.flatMap(linesOf);

test('the pages have commands', () => {
  expect(LINES.length).toBeGreaterThan(12);
});

test.each(LINES.map((line) => [`${line.at} ${line.words.join(' ')}`, line] as const))('%s', (_name, { words }) => {
  const [name, below] = words;
  const top = COMMANDS.map((make) => make()).find((command) => command.name() === name);
  expect(top?.name()).toBe(name);
  const command = top!.commands.find((one) => one.name() === below) ?? top!;
  const known = command.options.map(({ long }) => long);
  for (const word of words) if (word.startsWith('--')) expect(known).toContain(word.split('=')[0]);
});

test.each(
  LINES.filter(({ words }) => words[0] === 'serve').map(
    (line) => [`${line.at} ${line.words.join(' ')}`, line] as const,
  ),
)('it is a valid configuration: %s', (_name, { words, environment }) => {
  const flags: Partial<Record<SettingName, string | string[]>> = {};
  for (let at = 1; at < words.length; at++) {
    const word = words[at]!;
    if (!word.startsWith('--')) continue;
    const [flag = '', own] = word.slice(2).split('=', 2);
    const name = SETTING_NAMES.find((setting) => settingFlag(setting) === `--${flag}`)!;
    const next = words[at + 1];
    const value =
      own ?? (next === undefined || next.startsWith('--') ? 'on' : next.replace('https://…', 'https://t.example'));
    flags[name] = name === 'vllm' || name === 'model' ? [...[flags[name] ?? []].flat(), value] : value;
  }
  const roles = flags.role === undefined ? {} : GIVEN;
  const own = Object.fromEntries(Object.entries(environment).map(([name, value]) => [name, value.replace('…', 'x')]));
  expect(resolveConfig({ flags, environment: { ...roles, ...own }, configPath: null }).dataDirectory).toBeTruthy();
});

test('the guide passes the keys of vLLM to this service by a variable, and has the command that exports a base model', () => {
  const page = readFileSync(join(REPOSITORY, 'docs/guide/scaling.md'), 'utf8');
  expect(page).toContain('TRAINYARD_VLLM_KEY');
  expect(page).toMatch(/trainyard export --base model\.gguf --output base\b/);
});
