/** Maximum duration of a lease. One that ends later was written under a wrong clock. */
const LONGEST_LEASE_MS = 24 * 3600 * 1000;

/**
 * SQL condition: the lease whose end is in the column holds. Takes the two parameters of {@link leaseBounds}.
 */
export const holds = (column: string): string => `(${column} > ? and ${column} <= ?)`;

/** Possible ends of leases that hold now: after the first value, and at the latest at the second. */
export const leaseBounds = (now: number): [number, number] => [now, now + LONGEST_LEASE_MS];
