/** Statuses that proxies answer in place of a service that they do not reach. */
const AWAY_STATUSES = [502, 503, 504];

/** Whether a proxy says that it does not reach the service, which names each of its own answers, also those that refuse. */
export function isAway({ status, headers }: Response): boolean {
  return AWAY_STATUSES.includes(status) && !headers.has('x-request-id');
}
