import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

import { expect, it } from 'vitest';
import type { TestSpecification, Vitest } from 'vitest/node';

import { LONG_FILES, LongFilesFirst } from '../../scripts/lib/long-files-first.mjs';

const ROOT = resolve(import.meta.dirname, '../..');

it('every file of the list exists', () => {
  expect(LONG_FILES.filter((path) => !existsSync(resolve(ROOT, path)))).toEqual([]);
  expect(new Set(LONG_FILES).size).toBe(LONG_FILES.length);
});

it('keeps stages in order, shared projects together, and starts each with its longest files', async () => {
  const [one, two, ...others] = LONG_FILES.map((path) => resolve(ROOT, path)) as [string, string, ...string[]];
  const project = (name: string, groupOrder: number, isolate: boolean) => ({
    name,
    config: { isolate, sequence: { groupOrder } },
  });
  const shared = [project('a', 0, false), project('b', 0, false)] as const;
  const isolated = [project('c', 1, true), project('d', 1, true)] as const;
  const [short] = [resolve(import.meta.filename)];
  const last = others.at(-1)!;
  const given = [
    [isolated[1], one],
    [isolated[0], short],
    [isolated[0], two],
    [shared[1], one],
    [shared[0], short],
    [shared[0], last],
  ] as const;
  const context = { cache: { getTestSpecificationResult: () => ({ duration: 1, failed: false }) } };
  const sequencer = new LongFilesFirst(context as unknown as Vitest);
  const files = given.map(([of, moduleId]) => ({ project: of, moduleId }) as unknown as TestSpecification);
  const sorted = await sequencer.sort(files);
  expect(sorted.map((file) => [file.project.name, file.moduleId])).toEqual([
    ['a', last],
    ['a', short],
    ['b', one],
    ['d', one],
    ['c', two],
    ['c', short],
  ]);
});
