import { readFileSync } from 'node:fs';

import { expect, test } from 'vitest';

import type { Role } from '../contract/role.ts';
import { ServiceMetrics } from './service-metrics.ts';

const PAGE = readFileSync(new URL('../../../../../docs/reference/metrics.md', import.meta.url), 'utf8');
const ROW = /^\| `([a-z_]+:?[a-z0-9_]+)` \| (counter|gauge|histogram) \| ([a-z, ]+) \| (.*) \|$/gm;

interface Series {
  readonly type: string;
  readonly words: string;
}

async function seriesOf(role: Role): Promise<ReadonlyMap<string, Series>> {
  const text = await new ServiceMetrics(role).text();
  const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]));
  return new Map(
    [...text.matchAll(/^# HELP (\S+) (.*)$/gm)].map(([, name = '', words = '']) => [
      name,
      { type: types.get(name) ?? '', words: words.replaceAll('|', String.raw`\|`) },
    ]),
  );
}

const roles = ['api', 'trainer'] as const;

test('docs/reference/metrics.md has every metric of each role with its type and its words, and no other', async () => {
  const told = await Promise.all(roles.map(async (role) => [role, await seriesOf(role)] as const));
  const all = await seriesOf('all');
  expect(all.size).toBeGreaterThan(40);
  const rows = [...all].map(([name, { type, words }]) => {
    const by = told.filter(([, series]) => series.has(name)).map(([role]) => role);
    return `${name} | ${type} | ${by.join(', ')} | ${words}`;
  });
  const written = [...PAGE.matchAll(ROW)].map(([, ...cells]) => cells.join(' | '));
  expect(written.toSorted()).toEqual(rows.toSorted());
  // A single-role process reports only series that an all-roles process has.
  for (const [, series] of told) expect([...series.keys()].filter((name) => !all.has(name))).toEqual([]);
});
