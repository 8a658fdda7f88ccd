/** Pages in the navigation, each with the scope of its data; those of a model are linked from its own page. */
export const NAV_LINKS = [
  { href: '/models', text: 'Models', scope: 'training' },
  { href: '/chat', text: 'Chat', scope: 'inference' },
  { href: '/jobs', text: 'Jobs', scope: 'training' },
  { href: '/usage', text: 'Usage', scope: 'training' },
  { href: '/keys', text: 'Keys', scope: 'admin' },
  { href: '/system', text: 'System', scope: 'admin' },
] as const;

export type NavScope = (typeof NAV_LINKS)[number]['scope'];

/** Links of the pages that a key may see; `admin` includes the other scopes. */
export function navLinksOf(scopes: readonly string[]): readonly (typeof NAV_LINKS)[number][] {
  return NAV_LINKS.filter(({ scope }) => scopes.includes(scope) || scopes.includes('admin'));
}

/** Scope that the page of an address needs; null for an address without a page. */
export function scopeOfPage(path: string): NavScope | null {
  if (path.startsWith('/rollouts/') || path === '/compare') return 'training';
  return NAV_LINKS.find(({ href }) => path === href || path.startsWith(`${href}/`))?.scope ?? null;
}
