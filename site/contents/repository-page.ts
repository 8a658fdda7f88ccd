import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';

import type { SitePage } from './contents.ts';

/** A page in the site's form. */
export interface RenderedPage {
  readonly slug: string;
  readonly title: string;
  /** Markdown without the title, with links to pages of the site. */
  readonly body: string;
  /** Its pictures, as paths from the root of the repository. */
  readonly pictures: readonly string[];
}

const LINK = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g;

/**
 * Reads a page: the title is the first heading, links to files that are pages of the site lead there, links
 * to other files become their text.
 * @param pages by their files
 * @throws {Error} if the file does not exist
 */
export function renderPage(root: string, page: SitePage, pages: readonly SitePage[], base: string): RenderedPage {
  const markdown = page.make?.() ?? sourceOf(root, page);
  const [, title = page.slug, rest = markdown] = /^#+ (.+)\n([\s\S]*)$/.exec(markdown) ?? [];
  const folder = page.file === undefined ? '.' : dirname(page.file);
  const pictures: string[] = [];
  const body = outsideCode(rest, (text) =>
    text.replace(LINK, (whole, mark: string, words: string, target: string) => {
      if (/^\w+:/.test(target)) return whole;
      const [path = '', anchor = ''] = target.split('#');
      const file = path === '' ? page.file : posix.normalize(posix.join(folder, path));
      if (mark === '!' && file !== undefined) {
        pictures.push(file);
        return `![${words}](${base}pictures/${file})`;
      }
      const href =
        file === undefined ? (path === '' ? page.slug : null) : (pages.find((one) => one.file === file)?.slug ?? null);
      return href === null ? words : `[${words}](${address(base, href)}${anchor === '' ? '' : `#${anchor}`})`;
    }),
  );
  return { slug: page.slug, title: title.replaceAll('`', ''), body, pictures };
}

/** Address of a page. */
export function address(base: string, slug: string): string {
  return slug === 'index' ? base : `${base}${slug}/`;
}

function sourceOf(root: string, { file = '' }: SitePage): string {
  const path = join(root, file);
  if (!existsSync(path))
    throw new Error(`${file} is a page of the site (site/contents/contents.ts) but does not exist`);
  return readFileSync(path, 'utf8');
}

const CODE = /^```[\s\S]*?^```$|`[^`\n]+`/gm;
/** Placeholder for removed code; no Markdown file contains it. */
const HELD = /\uE000(\d+)\uE000/g;

/** Changes the text outside code. */
function outsideCode(markdown: string, change: (text: string) => string): string {
  const held: string[] = [];
  const text = markdown.replace(CODE, (code) => `\uE000${held.push(code) - 1}\uE000`);
  return change(text).replace(HELD, (_, index: string) => held[Number(index)]!);
}
