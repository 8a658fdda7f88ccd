import { readFileSync } from 'node:fs';

import { expect, test } from 'vitest';

import { ServiceMetrics } from './service-metrics.ts';

const PAGE = readFileSync(new URL('../../../../docs/reference/metrics.md', import.meta.url), 'utf8');

test('docs/reference/metrics.md has every metric of the service with its type and its words, and no other', async () => {
  const text = await new ServiceMetrics().text();
  const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type = '']) => [name, type]));
  const rows = [...text.matchAll(/^# HELP (\S+) (.*)$/gm)].map(
    ([, name = '', words = '']) => `| \`${name}\` | ${types.get(name)} | ${words.replaceAll('|', String.raw`\|`)} |`,
  );
  expect(rows.length).toBeGreaterThan(20);
  expect(PAGE.match(/^\| `[a-z_]+:?[a-z0-9_]+` \| (counter|gauge|histogram) \| .*$/gm)?.toSorted()).toEqual(
    rows.toSorted(),
  );
});
