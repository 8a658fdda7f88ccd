import type { Scope } from '@trainyard/store';

/** What a key must be allowed to do; `public` routes take no key. */
export type RouteScope = Scope | 'public';
