/** Pages in the navigation; those of a model are linked from its own page. */
export const NAV_LINKS = [
  { href: '/models', text: 'Models' },
  { href: '/chat', text: 'Chat' },
  { href: '/jobs', text: 'Jobs' },
  { href: '/usage', text: 'Usage' },
  { href: '/keys', text: 'Keys' },
  { href: '/system', text: 'System' },
] as const;
