/** Statuses of proxies that cannot reach the service. */
const AWAY_STATUSES = [502, 503, 504];

/**
 * Returns true for an answer of a proxy that cannot reach the service. The service marks all of its own
 * answers, refusals included.
 */
export function isAway({ status, headers }: Response): boolean {
  return AWAY_STATUSES.includes(status) && !headers.has('x-request-id');
}
