import { TrainyardApiError, TrainyardConnectionError } from './errors.ts';

/**
 * When a request may be sent a second time.
 *
 * - `always`: it changes nothing, or a repeat costs tokens and nothing else.
 * - `keyed`: it goes with an `Idempotency-Key`, so that the service has its effect once.
 * - `refused`: only when the service said that it had no effect.
 */
export type Repeat = 'always' | 'keyed' | 'refused';

/** Repeats of a request, unless the client or the call says otherwise. */
export const DEFAULT_MAX_RETRIES = 2;

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;
/** A service that asks for more patience than this gets none: the error is the caller's. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/** Statuses with which proxies say that they could not reach the service, or it them. */
const PROXY_STATUSES = new Set([408, 429, 502, 503, 504]);

/**
 * How long to wait before a request is sent again; null when it is not.
 *
 * The service says with `x-should-retry` whether a repeat can help, and with `Retry-After` when; a refused request has had no effect. Without the header
 * the wait doubles from 0.5 s to 8 s, less up to a quarter, so that clients which were refused together do not come back together.
 *
 * @param numRepeats how often it was repeated already
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
  // Without the header it is no answer of the service, which may have had the request.
  const mayRepeat = advice === null ? repeat !== 'refused' && PROXY_STATUSES.has(error.status) : advice === 'true';
  if (!mayRepeat) return null;
  const retryAfterMs = readRetryAfterMs(error.headers);
  if (retryAfterMs === null) return wait();
  return retryAfterMs <= LONGEST_RETRY_AFTER_MS ? retryAfterMs : null;
}

/** A wait that doubles up to a bound, less a random part of up to a quarter. */
export function backoffMs(numRepeats: number, firstMs: number, longestMs: number, random = Math.random): number {
  return Math.min(firstMs * 2 ** numRepeats, longestMs) * (1 - random() / 4);
}

/** Seconds or a date, RFC 9110 section 10.2.3. Null without the header, and where it says neither. */
function readRetryAfterMs(headers: Headers): number | null {
  const header = headers.get('retry-after')?.trim();
  if (header === undefined || header === '') return null;
  if (/^\d+(\.\d+)?$/.test(header)) return Number(header) * 1000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, date - Date.now());
}
