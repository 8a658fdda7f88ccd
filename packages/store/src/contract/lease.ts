/** A lease that ends later than this from now was written under a wrong clock: no lease lasts so long. */
const LONGEST_LEASE_MS = 24 * 3600 * 1000;

/** Condition on a column with the end of a lease: it holds. It takes the two parameters of {@link leaseBounds}. */
export const holds = (column: string): string => `(${column} > ? and ${column} <= ?)`;

/** The ends that leases which hold now may have: after the first, and at the latest at the second. */
export const leaseBounds = (now: number): [number, number] => [now, now + LONGEST_LEASE_MS];
