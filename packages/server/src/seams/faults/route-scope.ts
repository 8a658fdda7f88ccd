import type { Scope } from '@trainyard/store';

/** The scope that a key must have; `public` routes take no key, `any` takes every valid one. */
export type RouteScope = Scope | 'public' | 'any';
