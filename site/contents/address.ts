/** Address of a page of the site. */
export function address(base: string, slug: string): string {
  return slug === 'index' ? base : `${base}${slug}/`;
}
