import { COMMANDS, commandLinePage } from '@trainyard/cli';
import { type DocumentPage, documentSections, type DocumentSection } from '@trainyard/server';

import { httpPage } from './http-page.ts';

const GENERATED: readonly DocumentPage[] = [
  { slug: 'reference/http', make: httpPage },
  { slug: 'reference/command-line', make: () => commandLinePage(COMMANDS.map((make) => make())) },
];

/** All pages of the site, in order. @param root the repository */
export function siteContents(root: string): readonly DocumentSection[] {
  return documentSections(root, GENERATED);
}
