import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { type DocumentPage, documentText, type DocumentText } from '@trainyard/server';

import { address } from './address.ts';
import { siteContents } from './contents.ts';
import { llmsTexts } from './llms-texts.ts';

/**
 * Writes the inputs of the site's build: `pages/` (Markdown and the sidebar) and `public/` (pictures,
 * `llms.txt`, `llms-full.txt`). Both are generated; the repository contains no copy.
 * @param root the repository
 * @param to `base`: path that the site is served under, starts and ends with a slash (`/`); `site`: folder
 * for both (`site` of the repository)
 * @returns the pages
 * @throws {Error} if a page in the contents does not exist
 */
export function writePages(root: string, to: { base?: string; site?: string } = {}): readonly DocumentText[] {
  const { base = '/', site = join(root, 'site') } = to;
  const [pagesFolder, publicFolder] = [join(site, 'pages'), join(site, 'public')];
  for (const folder of [pagesFolder, publicFolder]) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
  }
  const sections = siteContents(root);
  const pages = sections.flatMap((section) => section.pages);
  const links = {
    pages,
    addressOf: (slug: string) => address(base, slug),
    pictureAddressOf: (path: string) => `${base}pictures/${path}`,
  };
  const rendered = pages.map((page) => documentText(page.make?.() ?? sourceOf(root, page), page, links));
  for (const { slug, title, body, pictures } of rendered) {
    writeInto(pagesFolder, `${slug}.md`, `---\ntitle: ${JSON.stringify(title)}\n---\n\n${body.trim()}\n`);
    for (const picture of pictures) {
      mkdirSync(dirname(join(publicFolder, 'pictures', picture)), { recursive: true });
      cpSync(join(root, picture), join(publicFolder, 'pictures', picture));
    }
  }
  const sidebar = sections.map(({ label, isInside = false, pages: own }) => ({
    label,
    collapsed: isInside,
    items: own.map(({ slug }) => ({
      label: rendered.find((page) => page.slug === slug)!.title,
      link: address('/', slug),
    })),
  }));
  writeInto(pagesFolder, 'sidebar.json', JSON.stringify(sidebar, null, 2));
  cpSync(join(root, 'site/favicon.svg'), join(publicFolder, 'favicon.svg'));
  for (const [name, text] of Object.entries(llmsTexts(sections, rendered, base))) writeInto(publicFolder, name, text);
  return rendered;
}

function sourceOf(root: string, { file = '' }: DocumentPage): string {
  const path = join(root, file);
  if (!existsSync(path)) throw new Error(`${file} is a document (document-sections.ts) but does not exist`);
  return readFileSync(path, 'utf8');
}

function writeInto(folder: string, name: string, text: string): void {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
