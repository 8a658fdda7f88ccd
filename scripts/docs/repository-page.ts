import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';

import type { SitePage } from './contents.ts';

/** A page as the site has it. */
export interface RenderedPage {
  readonly slug: string;
  readonly title: string;
  /** Markdown without the title, its links leading to pages of the site. */
  readonly body: string;
  /** Pictures that it shows, as paths from the root of the repository. */
  readonly pictures: readonly string[];
}

const LINK = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g;

/**
 * Reads a page: the title is the first heading, links to files that are pages of the site lead there, links to other files become their text.
 *
 * @param pages by the file that each is; a section of a file counts for the file's links to it
 * @throws {Error} when the file or its section is not there
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
      const href = file === undefined ? (path === '' ? page.slug : null) : slugOf(pages, file, anchor, page);
      return href === null ? words : `[${words}](${address(base, href)}${anchor === '' ? '' : `#${anchor}`})`;
    }),
  );
  return { slug: page.slug, title: title.replaceAll('`', ''), body, pictures };
}

/** Where a page is. */
export function address(base: string, slug: string): string {
  return slug === 'index' ? base : `${base}${slug}/`;
}

function sourceOf(root: string, { file = '', section }: SitePage): string {
  const path = join(root, file);
  if (!existsSync(path)) throw new Error(`${file} is a page of the site (scripts/docs/contents.ts) and is not there`);
  const text = readFileSync(path, 'utf8');
  if (section === undefined) return text;
  const [found] = new RegExp(`^## ${section}\\n[\\s\\S]*?(?=^## |(?![\\s\\S]))`, 'm').exec(text) ?? [];
  if (found === undefined) throw new Error(`${file} has no section "${section}", which is a page of the site`);
  return found.replaceAll(/^##(#* )/gm, '#$1');
}

/** The page that a link to a file leads to: of several sections the one with the heading, else the whole file. */
function slugOf(pages: readonly SitePage[], file: string, anchor: string, from: SitePage): string | null {
  if (from.file === file && from.section === undefined) return from.slug;
  const found = pages.filter((page) => page.file === file);
  const whole = found.find(({ section }) => section === undefined);
  const part = found.find(({ section }) => section?.toLowerCase() === anchor);
  return (whole ?? part)?.slug ?? null;
}

const CODE = /^```[\s\S]*?^```$|`[^`\n]+`/gm;
/** Stands for code that was taken out; no Markdown file has it. */
const HELD = /\uE000(\d+)\uE000/g;

/** Changes what is no code. */
function outsideCode(markdown: string, change: (text: string) => string): string {
  const held: string[] = [];
  const text = markdown.replace(CODE, (code) => `\uE000${held.push(code) - 1}\uE000`);
  return change(text).replace(HELD, (_, index: string) => held[Number(index)]!);
}
