import type { RouteParts } from '../../parts/server-parts.ts';

/** Notifies samplers of adapter versions that no model and no import has any more. */
export function retireAdapters({ inference }: RouteParts, { digests }: { digests: readonly string[] }): void {
  for (const digest of digests) inference.retire(digest);
}
