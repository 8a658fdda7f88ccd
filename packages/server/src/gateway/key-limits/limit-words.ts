import type { KeyBudget, KeyLimits, KeyVerdict } from '@trainyard/store';

import { RequestError } from '../../seams/faults/request-error.ts';

const MINUTE_MS = 60_000;
/** A place in flight is free when somebody's request ends, which nobody knows beforehand. */
const RETRY_IN_FLIGHT_MS = 1_000;

type Refusal = Extract<KeyVerdict, { kind: 'refused' }>;

/** How a form of requests tells the limits of a key, and what is left of them. */
export type RateHeaders = (budget: KeyBudget, limits: KeyLimits) => Record<string, string>;

/** A bucket, as headers tell it. */
interface Rate {
  readonly limit: number;
  /** whole requests or tokens; never below 0 */
  readonly remaining: number;
  /** milliseconds until it is full */
  readonly fullInMs: number;
}

/**
 * Headers of OpenAI's: of each limit its size, what is left, and when all of it is there again.
 *
 * @see https://platform.openai.com/docs/guides/rate-limits
 */
export const openaiRateHeaders: RateHeaders = (budget, limits) =>
  headersOf(budget, limits, (unit, { limit, remaining, fullInMs }) => ({
    [`x-ratelimit-limit-${unit}`]: String(limit),
    [`x-ratelimit-remaining-${unit}`]: String(remaining),
    [`x-ratelimit-reset-${unit}`]: durationOf(fullInMs),
  }));

/**
 * The same in headers of Anthropic's, whose reset is a time (RFC 3339) by the clock of the store.
 *
 * @see https://docs.claude.com/en/api/rate-limits
 */
export const anthropicRateHeaders: RateHeaders = (budget, limits) =>
  headersOf(budget, limits, (unit, { limit, remaining, fullInMs }) => ({
    [`anthropic-ratelimit-${unit}-limit`]: String(limit),
    [`anthropic-ratelimit-${unit}-remaining`]: String(remaining),
    [`anthropic-ratelimit-${unit}-reset`]: secondOf(budget.at + fullInMs),
  }));

function headersOf(
  { usedRequests, usedTokens }: KeyBudget,
  { requestsPerMinute, tokensPerMinute }: KeyLimits,
  write: (unit: 'requests' | 'tokens', rate: Rate) => Record<string, string>,
): Record<string, string> {
  return {
    ...(requestsPerMinute === null ? {} : write('requests', rateOf(requestsPerMinute, usedRequests))),
    ...(tokensPerMinute === null ? {} : write('tokens', rateOf(tokensPerMinute, usedTokens))),
  };
}

function rateOf(limit: number, used: number): Rate {
  const remaining = Math.max(0, Math.floor(limit - used + 1e-6));
  return { limit, remaining, fullInMs: (used * MINUTE_MS) / limit };
}

/** The whole second by which a time has come, `2026-11-25T12:00:30Z`. */
function secondOf(ms: number): string {
  return new Date(Math.ceil(ms / 1000) * 1000).toISOString().replace('.000Z', 'Z');
}

/** As Go writes it, and so OpenAI: `0s`, `17ms`, `8.64s`, `6m0s`. */
export function durationOf(ms: number): string {
  const whole = Math.ceil(ms - 1e-6);
  if (whole <= 0) return '0s';
  if (whole < 1000) return `${whole}ms`;
  const [minutes, seconds] = [Math.floor(whole / MINUTE_MS), (whole % MINUTE_MS) / 1000];
  return minutes === 0 ? `${seconds}s` : `${minutes}m${seconds}s`;
}

/** The refusal of a request: which limit, how much it is, and when the request may come again. */
export function overLimit(
  { limit, freeInMs, budget }: Refusal,
  limits: KeyLimits,
  toHeaders: RateHeaders,
): RequestError {
  const waitMs = Math.max(1, Math.ceil(freeInMs ?? RETRY_IN_FLIGHT_MS));
  const size = limits[limit] ?? 0;
  const wait = `retry in ${durationOf(waitMs)}`;
  const messages: Record<keyof KeyLimits, string> = {
    requestsPerMinute: `Rate limit reached: this key may send ${size} requests per minute (requests_per_minute); ${wait}`,
    tokensPerMinute: `Rate limit reached: this key may use ${size} tokens per minute (tokens_per_minute), prompts and completions, and has used ${Math.ceil(budget.usedTokens)}; ${wait}`,
    maxRequestsInFlight: `Rate limit reached: this key may have ${size} requests in flight (max_requests_in_flight) and all are in use; retry when one of them has ended`,
  };
  return new RequestError('rate_limit_exceeded', messages[limit], {
    headers: {
      'retry-after': String(Math.ceil(waitMs / 1000)),
      'retry-after-ms': String(waitMs),
      ...toHeaders(budget, limits),
    },
  });
}
