import { COMMANDS, commandLinePage } from '@trainyard/cli';
import { type DocumentPage, documentSections, type DocumentSection } from '@trainyard/server';

import { httpPage } from './http-page.ts';

/** A page of the site. */
export interface SitePage extends DocumentPage {
  /** Generates the Markdown of a generated page, which starts with its title. */
  readonly make?: () => string;
}

interface SiteSection extends DocumentSection {
  readonly pages: readonly SitePage[];
}

const GENERATED: readonly SitePage[] = [
  { slug: 'reference/http', make: httpPage },
  { slug: 'reference/command-line', make: () => commandLinePage(COMMANDS.map((make) => make())) },
];

/** All pages of the site, in order. @param root the repository */
export function siteContents(root: string): readonly SiteSection[] {
  return documentSections(root).map((section) =>
    section.label === 'Reference' ? { ...section, pages: [...GENERATED, ...section.pages] } : section,
  );
}
