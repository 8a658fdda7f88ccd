import type { Scope } from '@trainyard/store';

/** Scope that a key needs; `public` routes need no key, `any` accepts every valid one. */
export type RouteScope = Scope | 'public' | 'any';
