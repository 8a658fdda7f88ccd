/** The pages are correct about each other, and about the code. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, posix } from 'node:path';

import { COMMANDS } from '@trainyard/cli';
import { OPERATIONS } from '@trainyard/protocol';
import { apiDocument, resolveConfig, SETTING_NAMES } from '@trainyard/server';
import { openSqliteStore } from '@trainyard/store';
import { WARNING_CODES } from '@trainyard/trainer';
import { describe, expect, onTestFinished, test } from 'vitest';

import { brokenLinks } from '../../site/contents/built-links.ts';
import { siteContents } from '../../site/contents/contents.ts';
import { writePages } from '../../site/contents/write-pages.ts';
import { COMMANDS as SCRIPT_COMMANDS } from '../../scripts/lib/commands.mjs';
import { blocksOf, isKnownBlock, isRun } from '../support/doc-blocks.ts';
import { REPOSITORY } from './support/run-script.ts';

const PAGES = execFileSync('git', ['ls-files', '*.md'], { cwd: REPOSITORY, encoding: 'utf8' }).trim().split('\n');
const SITE = siteContents(REPOSITORY).flatMap(({ pages }) => pages);
const read = (path: string) => readFileSync(join(REPOSITORY, path), 'utf8');
/** Link targets of a page, as GitHub and the site derive them from headings. */
const placesOf = (page: string) =>
  [
    ...read(page)
      .replaceAll(/^```[\s\S]*?^```$/gm, '')
      .matchAll(/^#{1,6} (.+)$/gm),
  ].map(([, words = '']) =>
    words
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-'),
  );

test('every decision has its own number, a title that starts with it, and its line in the index by theme', () => {
  const names = readdirSync(join(REPOSITORY, 'docs/decisions')).filter((name) => name !== 'README.md');
  const numbers = names.map((name) => Number(name.slice(0, 4)));
  expect(numbers.filter((number, index) => numbers.indexOf(number) !== index)).toEqual([]);
  const titles = names.map((name) => read(`docs/decisions/${name}`).split('\n', 1)[0]!.slice('# '.length));
  expect(titles.filter((title, index) => !title.startsWith(`${numbers[index]}. `))).toEqual([]);
  const lines = read('docs/decisions/README.md')
    .split('\n')
    .filter((line) => line.startsWith('- '));
  const expected = names.map((name, index) => `- [${titles[index]}](${name})`);
  expect(lines.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(expected.toSorted((a, b) => (a < b ? -1 : 1)));
});

describe('links between files', () => {
  const links = PAGES.flatMap((page) =>
    [...read(page).matchAll(/\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)/g)].map(([, target = '', place = '']) => ({
      page,
      target: target === '' ? page : posix.join(dirname(page), target),
      place,
    })),
  );

  test('every one leads to a file', () => {
    expect(PAGES.length).toBeGreaterThan(20);
    expect(links.length).toBeGreaterThan(30);
    expect(links.filter(({ target }) => !existsSync(join(REPOSITORY, target)))).toEqual([]);
  });

  test('every one with a place leads to a heading', () => {
    const withPlace = links.filter(({ place, target }) => place !== '' && target.endsWith('.md'));
    expect(withPlace.length).toBeGreaterThan(10);
    expect(withPlace.filter(({ target, place }) => !placesOf(target).includes(place))).toEqual([]);
  });
});

describe('the site', () => {
  test('has every guide, every page of the reference and the lab, every decision and every example', () => {
    const pages = new Set(SITE.map(({ file }) => file));
    const expected = PAGES.filter((page) => /^docs\/(guide|reference|lab|decisions)\/|^examples\//.test(page));
    expect(expected.length).toBeGreaterThan(50);
    expect(expected.filter((page) => !pages.has(page))).toEqual([]);
  });

  test('has only existing pages, with links to each other and a list for language models', () => {
    const folder = mkdtempSync(join(tmpdir(), 'trainyard-site-'));
    try {
      const pages = writePages(REPOSITORY, { site: folder, base: '/docs/' });
      expect(pages.map(({ slug }) => slug)).toEqual(SITE.map(({ slug }) => slug));
      expect(pages.filter(({ title, body }) => title === '' || body.trim() === '')).toEqual([]);
      const index = readFileSync(join(folder, 'pages/index.md'), 'utf8');
      expect(index).toMatch(/^---\ntitle: "Trainyard"\n---\n/);
      expect(index).toContain('](/docs/guide/getting-started/)');
      const concepts = readFileSync(join(folder, 'pages/guide/concepts.md'), 'utf8');
      expect(concepts).toContain('](/docs/pictures/docs/guide/loop.svg)');
      expect(existsSync(join(folder, 'public/pictures/docs/guide/loop.svg'))).toBe(true);
      const list = readFileSync(join(folder, 'public/llms.txt'), 'utf8');
      expect(pages.filter(({ title }) => !list.includes(`[${title}](/docs/`))).toEqual([]);
      const whole = readFileSync(join(folder, 'public/llms-full.txt'), 'utf8');
      expect(pages.filter(({ title }) => !whole.includes(`# ${title}\n`))).toEqual([]);
      // Only absolute addresses lead out of the site.
      const left = pages.flatMap(({ slug, body }) =>
        [...body.replaceAll(/^```[\s\S]*?^```$|`[^`\n]+`/gm, '').matchAll(/\]\((?!\w+:|#|\/docs\/)([^)]*)\)/g)].map(
          ([whole]) => `${slug}: ${whole}`,
        ),
      );
      expect(left).toEqual([]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test('broken links of a built page are found', () => {
    expect(brokenLinks(join(REPOSITORY, 'tests/tooling/fixtures/built-site'))).toEqual([
      '/: /missing/ does not exist',
      '/: /guide/ has no anchor #nowhere',
      '/: relative.html is not a path from the root',
    ]);
  });
});

test('a shell variable is set on its page, except the key, which the start explains', () => {
  const unset = SITE.flatMap(({ file }) => {
    const set = new Set(['TRAINYARD_API_KEY', 'HOME', 'PWD']);
    const blocks = file === undefined ? [] : blocksOf(file);
    return blocks
      .filter(({ language }) => language === 'sh')
      .flatMap(({ page, line, text }) => {
        for (const [, name] of text.matchAll(/^(?:export )?(\w+)=/gm)) set.add(name!);
        const used = [...text.matchAll(/\$\{?([A-Z][A-Z_]+)\b/g)].map(([, name]) => name!);
        return used.filter((name) => !set.has(name)).map((name) => `${page}:${line}: $${name}`);
      });
  });
  expect(unset).toEqual([]);
});

test('every block of a page declares by its language whether it is run', () => {
  const blocks = SITE.flatMap(({ file }) => (file === undefined ? [] : blocksOf(file)));
  expect(blocks.filter(isRun).length).toBeGreaterThan(10);
  const unknown = blocks.filter((block) => !isKnownBlock(block));
  expect(unknown.map(({ page, line, language, mark }) => `${page}:${line} ${language} ${mark}`)).toEqual([]);
});

describe('pages about the code', () => {
  test('an example key has the form of a key', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'trainyard-key-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const store = await openSqliteStore(join(folder, 'database'));
    const { id: entityId } = await store.keys.ensureEntity('local');
    const { secret } = await store.keys.create({ entityId, name: 'a key', scopes: [] });
    await store.close();
    const beginnings = PAGES.flatMap((page) =>
      [...read(page).matchAll(/\b(ty[-_])[\w.…-]*/g)].map(([word, beginning]) => ({ page, word, beginning })),
    );
    expect(beginnings.length).toBeGreaterThan(1);
    expect(beginnings.filter(({ beginning }) => beginning !== secret.slice(0, 3))).toEqual([]);
  });

  test('the settings page lists every value of a setting with few values', () => {
    const rows = new Map(
      [...read('docs/reference/settings.md').matchAll(/^\| `--[a-z-]+` \| `([A-Z_]+)`.*$/gm)].map(([row, name]) => [
        name,
        row,
      ]),
    );
    let numSettings = 0;
    for (const name of SETTING_NAMES) {
      const variable = `TRAINYARD_${name.replaceAll(/[A-Z]/g, '_$&').toUpperCase()}`;
      const values = valuesOf(variable);
      // The row of a switch describes the effect of one value.
      if (values.length === 0 || values.includes('off')) continue;
      numSettings++;
      const row = rows.get(variable) ?? '';
      expect({ variable, missing: values.filter((value) => !new RegExp(`[| \`]${value}[ \`,]`).test(row)) }).toEqual({
        variable,
        missing: [],
      });
    }
    expect(numSettings).toBeGreaterThan(5);
  });

  test('the page of the npm scripts has every script and no other', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const rows = [...read('docs/lab/scripts.md').matchAll(/^\| `([^`]+)` \|/gm)].map(([, name = '']) => name);
    const plain = Object.keys(scripts).filter((name) => !Object.hasOwn(SCRIPT_COMMANDS, name));
    const programs = Object.entries(SCRIPT_COMMANDS).flatMap(([command, { programs: all }]) =>
      Object.keys(all).map((name) => `${command} -- ${name}`),
    );
    expect(rows.toSorted()).toEqual([...plain, ...programs].toSorted());
    expect(Object.keys(scripts).filter((name) => Object.hasOwn(SCRIPT_COMMANDS, name))).toEqual(
      Object.keys(SCRIPT_COMMANDS),
    );
  });

  test('the guide of the charts has a section for every warning, and for no other', () => {
    const [, warnings = ''] = read('docs/guide/charts-and-warnings.md').split(/^## Warnings$/m);
    const [part = ''] = warnings.split(/^## /m);
    expect([...part.matchAll(/^### (.+)$/gm)].map(([, code]) => code)).toEqual([...WARNING_CODES]);
  });

  test('the page of the routes has every operation and every object', () => {
    const text = SITE.find(({ slug }) => slug === 'reference/http')!.make!();
    const calls = OPERATIONS.flatMap(({ method, paths }) =>
      paths.map((path) => `### ${method.toUpperCase()} ${path}\n`),
    );
    expect(calls.filter((call) => !text.includes(call))).toEqual([]);
    const names = Object.keys(apiDocument().components.schemas);
    expect(names.filter((name) => !text.includes(`### ${name}\n`))).toEqual([]);
  });

  test('the page of the command line has every command with its options', () => {
    const text = SITE.find(({ slug }) => slug === 'reference/command-line')!.make!();
    const commands = COMMANDS.map((make) => make()).flatMap((command) => [command, ...command.commands]);
    const expected = commands.flatMap((command) => [command.name(), ...command.options.map(({ long }) => long ?? '')]);
    expect(expected.filter((word) => !text.includes(word))).toEqual([]);
  });

  test('the page of events has every type of the API', () => {
    const named = JSON.stringify(apiDocument().components.schemas['ServiceEvent']);
    const types = [...named.matchAll(/`((?:model|checkpoint|checkpoints|log|job)_[a-z]+)`/g)];
    expect(types.length).toBeGreaterThan(5);
    const all = new Set([...types.map(([, type = '']) => type), 'training_started', 'gradient_step', 'warning']);
    for (const type of ['training_ended', 'training_failed', 'job_ended', 'job_failed']) all.add(type);
    const page = read('docs/reference/events.md');
    expect([...all].filter((type) => !page.includes(`\`${type}\``))).toEqual([]);
  });
});

/** Values of a variable's setting, from its error message; empty if there are many. */
function valuesOf(variable: string): string[] {
  try {
    resolveConfig({ flags: {}, environment: { [variable]: 'no such value' }, configPath: null });
    return [];
  } catch (error) {
    const [, values] = /must be one of (.*), got/.exec((error as Error).message) ?? [];
    return values === undefined ? [] : values.split(', ');
  }
}
