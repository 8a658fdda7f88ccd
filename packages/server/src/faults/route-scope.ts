import type { Scope } from '@trainyard/store';

/** The scope that a key must have; `public` routes take no key. */
export type RouteScope = Scope | 'public';
