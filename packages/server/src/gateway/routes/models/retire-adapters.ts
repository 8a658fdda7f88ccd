import type { RouteParts } from '../../parts/server-parts.ts';

/** Tells whoever samples which adapter versions no model and no import has any more. */
export function retireAdapters({ inference }: RouteParts, { digests }: { digests: readonly string[] }): void {
  for (const digest of digests) inference.retire(digest);
}
