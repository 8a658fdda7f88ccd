import type { KeyBudget, KeyLimits, KeyVerdict } from '@trainyard/store';

import { RequestError } from '../../seams/faults/request-error.ts';

const MINUTE_MS = 60_000;
/** A place in flight becomes free when another request ends, which is unpredictable. */
const RETRY_IN_FLIGHT_MS = 1_000;

type Refusal = Extract<KeyVerdict, { kind: 'refused' }>;

/** Headers of a form of requests for the limits of a key and their remainders. */
export type RateHeaders = (budget: KeyBudget, limits: KeyLimits) => Record<string, string>;

interface Rate {
  readonly limit: number;
  /** whole requests or tokens; never below 0 */
  readonly remaining: number;
  /** milliseconds until it is full */
  readonly fullInMs: number;
}

/**
 * OpenAI's headers: each limit, its remainder, and the time until it is full.
 * @see https://platform.openai.com/docs/guides/rate-limits
 */
export const openaiRateHeaders: RateHeaders = (budget, limits) =>
  headersOf(budget, limits, (unit, { limit, remaining, fullInMs }) => ({
    [`x-ratelimit-limit-${unit}`]: String(limit),
    [`x-ratelimit-remaining-${unit}`]: String(remaining),
    [`x-ratelimit-reset-${unit}`]: durationOf(fullInMs),
  }));

/**
 * Anthropic's headers, whose reset is a time (RFC 3339) of the store's clock.
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

/** A time, rounded up to the second: `2026-11-25T12:00:30Z`. */
function secondOf(ms: number): string {
  return new Date(Math.ceil(ms / 1000) * 1000).toISOString().replace('.000Z', 'Z');
}

/** Duration in Go's format, as in OpenAI's headers: `0s`, `17ms`, `8.64s`, `6m0s`. */
export function durationOf(ms: number): string {
  const whole = Math.ceil(ms - 1e-6);
  if (whole <= 0) return '0s';
  if (whole < 1000) return `${whole}ms`;
  const [minutes, seconds] = [Math.floor(whole / MINUTE_MS), (whole % MINUTE_MS) / 1000];
  return minutes === 0 ? `${seconds}s` : `${minutes}m${seconds}s`;
}

/** Refusal of a request: the limit, its value, and the time until a retry. */
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
