import type { RouteParts } from '../server-parts.ts';

/**
 * Tells whoever samples which adapter versions no model has any more. An imported adapter needs no more than that: it is sampled from under the name of a model
 * alone.
 */
export function retireAdapters({ inference }: RouteParts, { digests }: { digests: readonly string[] }): void {
  for (const digest of digests) inference.retire(digest);
}
