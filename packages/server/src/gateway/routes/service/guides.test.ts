import { resolve } from 'node:path';
import { gzipSync } from 'node:zlib';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { GuideLibrary } from '../../guides/guide-library.ts';
import { ScriptedInference } from '../../../testing/scripted-inference.ts';
import { TestServer } from '../../../testing/test-server.ts';

const root = resolve(import.meta.dirname, '../../../../../..');
/** Limit for a page on the wire, bytes of gzip. */
const MAX_PAGE_BYTES = 50_000;
const library = new GuideLibrary({ root, commandLinePage: () => '# Command line\n\n## serve\n\nStarts it.' });

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.startOn(new ScriptedInference(), {}, null, { guides: library });
});
afterAll(() => server.close());

const get = async (url: string) => await server.app.inject({ url, headers: { host: 'localhost' } });

test('every document is a page without scripts of its own, of a bounded size, and all its links lead somewhere', async () => {
  const guides = await library.guides();
  expect(guides.length).toBeGreaterThan(80);
  expect(new Set(guides.map(({ href }) => href)).size).toBe(guides.length);
  const bodies = new Map<string, string>();
  for (const { href } of guides) {
    const { statusCode, body, headers } = await get(href);
    expect({ href, statusCode }).toEqual({ href, statusCode: 200 });
    expect(headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'sha256-[^']+'; /);
    expect(body.match(/<script/g)).toHaveLength(1);
    expect(gzipSync(body).length).toBeLessThan(MAX_PAGE_BYTES);
    bodies.set(href, body);
  }
  const anchorsOf = new Map(
    [...bodies].map(([href, body]) => [href, new Set([...body.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id))]),
  );
  const statuses = new Map<string, number>();
  const statusOf = async (path: string) => {
    if (!statuses.has(path)) statuses.set(path, (await get(path)).statusCode);
    return statuses.get(path);
  };
  const broken: string[] = [];
  for (const [page, body] of bodies)
    for (const [, target = ''] of body.matchAll(/\s(?:href|src)="((?:\/|#)[^"]*)"/g)) {
      const [path = '', anchor] = target.split('#');
      const anchors = anchorsOf.get(path === '' ? page : path);
      if (anchors === undefined ? (await statusOf(path)) !== 200 : anchor !== undefined && !anchors.has(anchor))
        broken.push(`${page}: ${target}`);
    }
  expect(broken).toEqual([]);
});

test('no mark of Markdown is left in the text of a page', async () => {
  const left: string[] = [];
  for (const { href } of await library.guides()) {
    const text = (await get(href)).body
      .replace(/^[\s\S]*<main>/, '')
      .replaceAll(/<(pre|code)\b[\s\S]*?<\/\1>/g, '')
      .replaceAll(/<[^>]*>/g, ' ');
    for (const [mark] of text.matchAll(/\*\*|\]\(|^\s*(?:#{1,6} |```|\|.*\|$).*$/gm)) left.push(`${href}: ${mark}`);
  }
  expect(left).toEqual([]);
});

test('the search takes words, and has guides before decisions', async () => {
  const { hits } = (await get('/guides/search.json?q=few%20shot%20prompts')).json<{
    hits: { href: string; isInside: boolean }[];
  }>();
  expect(hits.length).toBeGreaterThan(0);
  const places = hits.map(({ isInside }) => isInside);
  expect(places).toEqual(places.toSorted((a, b) => Number(a) - Number(b)));
  const page = (await get('/guides/search?q=%3Cb%3E+learning+rate')).body;
  expect(page).toContain('<h1>Search: &lt;b&gt; learning rate</h1>');
  expect(page.indexOf('Guides and reference')).toBeLessThan(page.indexOf('How it is built'));
  expect((await get(`/guides/search?q=${'x'.repeat(201)}`)).statusCode).toBe(422);
});

test.each([
  ['/guides/', 200],
  ['/guides/getting-started/', 200],
  ['/guides/none', 404],
  ['/guides/..%2Fpackage.json', 404],
  ['/guides/pictures/package.json', 404],
  ['/guides/pictures/..%2F..%2Fpackage.json', 404],
  ['/guides/pictures/docs/guide/learnt.png', 200],
])('%s is %i', async (url, status) => expect((await get(url)).statusCode).toBe(status));

test('the reference links to the guides only if there are some', async () => {
  expect((await get('/docs')).body.includes('<a href="/guides">Guides</a>')).toBe(true);
  const plain = await TestServer.start();
  const { body } = await plain.app.inject({ url: '/docs', headers: { host: 'localhost' } });
  expect(body.includes('"/guides"')).toBe(false);
  await plain.close();
});
