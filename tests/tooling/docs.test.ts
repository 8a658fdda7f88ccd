/** The pages say of each other what holds. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { expect, test } from 'vitest';

import { REPOSITORY } from './support/run-script.ts';

const PAGES = execFileSync('git', ['ls-files', '*.md'], { cwd: REPOSITORY, encoding: 'utf8' }).trim().split('\n');

test('every decision has a number of its own', () => {
  const numbers = readdirSync(join(REPOSITORY, 'docs/decisions')).map((name) => name.slice(0, 4));
  expect(numbers.filter((number, index) => numbers.indexOf(number) !== index)).toEqual([]);
});

test('every link from one file to another leads there', () => {
  expect(PAGES.length).toBeGreaterThan(20);
  const links = PAGES.flatMap((page) =>
    [...readFileSync(join(REPOSITORY, page), 'utf8').matchAll(/\]\((?!\w+:|#)([^)#\s]+)[^)]*\)/g)].map(
      ([, target = '']) => ({ page, target }),
    ),
  );
  expect(links.length).toBeGreaterThan(30);
  expect(links.filter(({ page, target }) => !existsSync(join(REPOSITORY, dirname(page), target)))).toEqual([]);
});
