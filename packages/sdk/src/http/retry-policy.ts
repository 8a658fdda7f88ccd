import { TrainyardApiError, TrainyardConnectionError } from './errors.ts';

/**
 * Condition for repeating a request.
 *
 * - `always`: it has no effect, or a repeat only costs tokens.
 * - `keyed`: its `Idempotency-Key` gives it one effect.
 * - `refused`: only if the service reported that it had no effect.
 */
export type Repeat = 'always' | 'keyed' | 'refused';

/** Default repeats of a request. */
export const DEFAULT_MAX_RETRIES = 2;

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;
/** Longer waits requested by the service are left to the caller. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/** Statuses of proxies that could not reach the service, or be reached. */
const PROXY_STATUSES = new Set([408, 429, 502, 503, 504]);

/**
 * Wait before a request is repeated; null if it is not.
 *
 * The service sends `x-should-retry` if a repeat can help, and `Retry-After` for the time; a refused request
 * had no effect. Without that header the wait doubles from 0.5 s to 8 s, minus up to a quarter, so that
 * clients refused together do not return together.
 *
 * @param numRepeats number of repeats so far
 * @param random in [0, 1)
 */
export function retryDelayMs(
  error: unknown,
  repeat: Repeat,
  numRepeats: number,
  random: () => number = Math.random,
): number | null {
  const wait = () => backoffMs(numRepeats, FIRST_WAIT_MS, LONGEST_WAIT_MS, random);
  if (error instanceof TrainyardConnectionError) return repeat === 'refused' ? null : wait();
  if (!(error instanceof TrainyardApiError) || error.status < 400) return null;
  const advice = error.headers.get('x-should-retry');
  // Without the header it is not a response of the service, which may have received the request.
  const mayRepeat = advice === null ? repeat !== 'refused' && PROXY_STATUSES.has(error.status) : advice === 'true';
  if (!mayRepeat) return null;
  const retryAfterMs = readRetryAfterMs(error.headers);
  if (retryAfterMs === null) return wait();
  return retryAfterMs <= LONGEST_RETRY_AFTER_MS ? retryAfterMs : null;
}

/** A wait that doubles up to a limit, minus a random part of up to a quarter. */
export function backoffMs(numRepeats: number, firstMs: number, longestMs: number, random = Math.random): number {
  return Math.min(firstMs * 2 ** numRepeats, longestMs) * (1 - random() / 4);
}

/** Milliseconds of the header: seconds or a date, RFC 9110 section 10.2.3. Null without a valid header. */
function readRetryAfterMs(headers: Headers): number | null {
  const header = headers.get('retry-after')?.trim();
  if (header === undefined || header === '') return null;
  if (/^\d+(\.\d+)?$/.test(header)) return Number(header) * 1000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, date - Date.now());
}
