import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

/**
 * Broken links of a built site: to a page or a file that does not exist, or to a missing place in a page.
 * @param folder of the built site
 * @param base path that it is served under
 * @returns one line each, the page first
 */
export function brokenLinks(folder: string, base = '/'): string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)));
  const known = new Set(files.map((file) => `${base}${file.replace(/(^|\/)index\.html$/, '$1')}`));
  const pages = files.filter((file) => file.endsWith('.html'));
  const htmlOf = new Map(
    pages.map((file) => [
      `${base}${file.replace(/(^|\/)index\.html$/, '$1')}`,
      readFileSync(join(folder, file), 'utf8'),
    ]),
  );
  const placesOf = new Map(
    [...htmlOf].map(([page, html]) => [page, new Set([...html.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id))]),
  );
  return [...htmlOf].flatMap(([page, html]) =>
    [...html.matchAll(/\s(?:href|src)="([^"]+)"/g)].flatMap(([, target = '']) => {
      if (/^(\w+:|\/\/)/.test(target)) return [];
      const [path = '', place = ''] = target.split('#').map((part) => decodeURIComponent(part));
      const to = path === '' ? page : path.split('?')[0]!;
      if (!to.startsWith('/')) return [`${page}: ${target} is not a path from the root`];
      if (!known.has(to)) return [`${page}: ${target} does not exist`];
      const places = placesOf.get(to);
      return place === '' || places === undefined || places.has(place)
        ? []
        : [`${page}: ${to} has no anchor #${place}`];
    }),
  );
}
