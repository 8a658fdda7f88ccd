import { type Access, HEARTBEAT } from '../access.ts';
import type { Tables } from '../tables.ts';
import type { StoreClock } from './clock.ts';

/** Lifetime of a trusted reading of the clock, which is read several times per hour. */
const TRUSTED_FOR_MS = 3600 * 1000;

export interface SqlClock extends StoreClock {
  /** Reads the last trusted time, for this process to know. */
  readonly learn: (tables: Tables) => Promise<number | null>;
  /**
   * Time by which keys, sessions and links expire: a clock that is set back makes none of them valid again.
   */
  readonly endsAt: () => number;
}

export function sqlClock({ tables, now, write }: Access): SqlClock {
  /** Last trusted reading of the clock known to this process. */
  let trustedAt: number | null = null;
  const learn = async (own: Tables): Promise<number | null> => (trustedAt = await own.trustedClock.at());
  return {
    now,
    learn,
    lastTrusted: () => learn(tables),
    removalTime: () => Math.min(now(), (trustedAt ?? Infinity) + TRUSTED_FOR_MS),
    trust: async (at) => {
      await write(({ trustedClock }) => trustedClock.set(at), HEARTBEAT);
      trustedAt = at;
    },
    endsAt: () => Math.max(now(), trustedAt ?? 0),
  };
}
