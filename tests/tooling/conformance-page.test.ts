/**
 * docs/lab/conformance.md names tests: each file and each title exists, each deviation is used and explained.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

const ROOT = new URL('../../', import.meta.url).pathname;
const page = readFileSync(join(ROOT, 'docs/lab/conformance.md'), 'utf8');
const rows = page
  .split('\n')
  .filter((line) => line.startsWith('| ') && line.includes(' › '))
  .map((line) => line.split(' | '));
const cited = rows.flatMap((cells) =>
  cells
    .at(-1)!
    .replace(/ \|$/, '')
    .split('<br>')
    .map((reference) => {
      const [, file = '', title = ''] = /^`([^`]+)` › (.+)$/.exec(reference) ?? [];
      return { reference, file, title };
    }),
);

/** `engine/x.test.ts` → `packages/engine/src/x.test.ts`. */
function sourceOf(file: string): string {
  const [first, ...rest] = file.split('/');
  return readFileSync(join(ROOT, first === 'tests' ? file : `packages/${first}/src/${rest.join('/')}`), 'utf8');
}

/** True for a quoted text at the start of a call, a row of a table or a line, or as the key of a case. */
function isTitle(title: string, source: string): boolean {
  const text = title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const quoted = `(?:^|[(\\[])\\s*(['"\`])${text}\\1\\s*[,:]`;
  return title !== '' && new RegExp(`${quoted}|^\\s*${text}: \\{`, 'm').test(source);
}

test('each line of the page has a test that exists, by file and title', () => {
  expect(rows.length).toBeGreaterThan(100);
  const sources = new Map([...new Set(cited.map(({ file }) => file))].map((file) => [file, sourceOf(file)]));
  const missing = cited.filter(({ file, title }) => !isTitle(title, sources.get(file) ?? ''));
  expect(missing.map(({ reference }) => reference)).toEqual([]);
  console.log(`${rows.length} lines of the reference, ${cited.length} tests named, in ${sources.size} files`);
});

test('each deviation is explained once, and belongs to a line', () => {
  const explained = [...page.matchAll(/^\| (D\d+) \|/gm)].map(([, name]) => name!);
  const used = new Set([...page.matchAll(/\((D\d+)\)/g)].map(([, name]) => name!));
  expect(explained.toSorted()).toEqual([...used].toSorted());
  expect(explained).toEqual(explained.map((_, index) => `D${index + 1}`));
});
