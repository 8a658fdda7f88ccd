import { expect, test } from 'vitest';

import { Trainyard } from '../client.ts';

/** A list of this many models, in pages of `limit` or 2; records the requests. */
function listOf(count: number) {
  const asked: string[] = [];
  const all = Array.from({ length: count }, (_, index) => ({ id: `m${index}` }));
  const fetch = (async (url: string) => {
    const { search, searchParams } = new URL(url);
    asked.push(search);
    const after = searchParams.get('after');
    const start = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1;
    const data = all.slice(start, start + Number(searchParams.get('limit') ?? 2));
    const ends = { first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null };
    return Response.json({ object: 'list', data, ...ends, has_more: start + data.length < count });
  }) as typeof globalThis.fetch;
  return { asked, client: new Trainyard({ baseUrl: 'http://h/v1', apiKey: 'k', fetch }) };
}

test('a loop over a list goes through all pages, and fetches each when it is needed', async () => {
  const { asked, client } = listOf(5);
  const seen: string[] = [];
  for await (const { id } of client.models.list({ project: 'p' })) {
    seen.push(id);
    if (id === 'm1') expect(asked).toHaveLength(1);
  }
  expect(seen).toEqual(['m0', 'm1', 'm2', 'm3', 'm4']);
  expect(asked).toEqual(['?project=p', '?project=p&after=m1', '?project=p&after=m3']);
});

test('awaited it is one page, with the way to the next', async () => {
  const { asked, client } = listOf(3);
  const page = await client.models.list();
  expect(page.data.map(({ id }) => id)).toEqual(['m0', 'm1']);
  expect([page.has_more, page.last_id]).toEqual([true, 'm1']);
  const next = await page.nextPage();
  expect(next?.data.map(({ id }) => id)).toEqual(['m2']);
  expect(await next?.nextPage()).toBe(null);
  expect(asked).toHaveLength(2);
});

test('nothing is fetched twice', async () => {
  const { asked, client } = listOf(1);
  const list = client.models.list({ after: 'm0' });
  expect(await Promise.all([list, list.toArray()])).toMatchObject([{ data: [] }, []]);
  expect(asked).toEqual(['?after=m0']);
});

test('pages come one by one, and a list may be cut off', async () => {
  const sizes: number[] = [];
  for await (const page of listOf(5).client.models.list({ limit: 3 }).pages()) sizes.push(page.data.length);
  expect(sizes).toEqual([3, 2]);
  const { asked, client } = listOf(5);
  expect(await client.models.list().toArray(2)).toHaveLength(2);
  expect(asked).toHaveLength(1);
  expect(await client.models.list().toArray(0)).toEqual([]);
});
