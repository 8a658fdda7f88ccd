import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { documentSections } from './document-sections.ts';
import { documentText, type DocumentText } from './document-text.ts';
import type { GuideSearch } from './guide-search.ts';

/** Documents that the service shows at `/guides`. */
export interface GuideSource {
  /** Folder of the repository, or of the packed service, which have the same documents. */
  readonly root: string;
  /** Markdown of the page about the command line, which starts with its title. */
  readonly commandLinePage: () => string;
}

/** A document with its place among the others. */
export interface Guide extends DocumentText {
  readonly href: string;
  readonly section: string;
  readonly isInside: boolean;
}

/** Folder of pictures, below the address of the guides. */
export const PICTURES = '/guides/pictures/';

/** All documents of the product, read from their files when somebody asks for the first one. */
export class GuideLibrary {
  readonly #source: GuideSource;
  #guides: Promise<readonly Guide[]> | null = null;
  #search: Promise<GuideSearch> | null = null;

  constructor(source: GuideSource) {
    this.#source = source;
  }

  /** All guides in the order of the menu. @throws if a file is missing or cannot be read */
  async guides(): Promise<readonly Guide[]> {
    try {
      return await (this.#guides ??= readGuides(this.#source));
    } catch (error) {
      // The next request reads again.
      this.#guides = this.#search = null;
      throw error;
    }
  }

  async search(): Promise<GuideSearch> {
    this.#search ??= this.#makeSearch();
    return await this.#search;
  }

  /** Loads its parser and index only now, so that they cost a start nothing. */
  async #makeSearch(): Promise<GuideSearch> {
    const { GuideSearch } = await import('./guide-search.ts');
    return await GuideSearch.over(await this.guides());
  }

  /** @param path below the folder of pictures @returns null for a file that no document shows */
  async picture(path: string): Promise<Buffer | null> {
    const guides = await this.guides();
    return guides.some(({ pictures }) => pictures.includes(path))
      ? await readFile(join(this.#source.root, path))
      : null;
  }
}

async function readGuides({ root, commandLinePage }: GuideSource): Promise<readonly Guide[]> {
  const sections = documentSections(root, [{ slug: 'reference/command-line', make: commandLinePage }]);
  const links = {
    pages: sections.flatMap(({ pages }) => pages),
    addressOf: guideAddress,
    pictureAddressOf: (path: string) => PICTURES + path,
  };
  const guides = sections.map(async ({ label, isInside = false, pages }) => {
    const own = pages.map(async (page) => {
      const markdown = page.make?.() ?? (await readFile(join(root, page.file ?? ''), 'utf8'));
      const text = documentText(markdown, page, links);
      return { ...text, href: guideAddress(page.slug), section: label, isInside };
    });
    return await Promise.all(own);
  });
  return (await Promise.all(guides)).flat();
}

/** Address of a document in the service: guides directly below `/guides`, others in their folder. */
function guideAddress(slug: string): string {
  return slug === 'index' ? '/guides' : `/guides/${slug.replace(/^guide\//, '')}`;
}
