import { asksForNothing } from '@trainyard/protocol';

import { unsupported } from './conflict.ts';

/**
 * Refuses fields that would be ignored although they request something.
 * @param reasons why some are not supported; others are only named
 * @throws {RequestError} `request.unsupported` for the first of them
 */
export function refuseOtherFields(
  value: Readonly<Record<string, unknown>>,
  known: Iterable<string>,
  place: string | null = null,
  reasons: Readonly<Record<string, string>> = {},
): void {
  const names = new Set(known);
  for (const [name, member] of Object.entries(value)) {
    if (names.has(name) || asksForNothing(member)) continue;
    const reason = Object.hasOwn(reasons, name) ? reasons[name] : undefined;
    const path = place === null ? name : `${place}.${name}`;
    throw unsupported(path, reason ?? `supported are ${[...names].join(', ')}`);
  }
}
