import { dirname, posix } from 'node:path';

import type { DocumentPage } from './document-sections.ts';

/** A document with links that lead to addresses. */
export interface DocumentText {
  readonly slug: string;
  readonly title: string;
  /** Markdown without the title. */
  readonly body: string;
  /** Its pictures, as paths from the root of the repository. */
  readonly pictures: readonly string[];
}

export interface DocumentLinks {
  /** All documents that a link may lead to. */
  readonly pages: readonly DocumentPage[];
  readonly addressOf: (slug: string) => string;
  /** @param path from the root of the repository */
  readonly pictureAddressOf: (path: string) => string;
}

const LINK = /(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)/g;

/**
 * Separates the title, which is the first heading, and gives links to other documents their addresses. Links to
 * files that are no documents become their text.
 *
 * @param markdown of the page
 */
export function documentText(markdown: string, page: DocumentPage, links: DocumentLinks): DocumentText {
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
        return `![${words}](${links.pictureAddressOf(file)})`;
      }
      const slug =
        file === undefined ? (path === '' ? page.slug : null) : links.pages.find((one) => one.file === file)?.slug;
      return slug == null ? words : `[${words}](${links.addressOf(slug)}${anchor === '' ? '' : `#${anchor}`})`;
    }),
  );
  return { slug: page.slug, title: title.replaceAll('`', ''), body, pictures };
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
