import type { KeyBudget, KeyLimits, KeyVerdict } from '@trainyard/store';

import { RequestError } from '../faults/request-error.ts';

const MINUTE_MS = 60_000;
/** A place in flight is free when somebody's request ends, which nobody knows beforehand. */
const RETRY_IN_FLIGHT_MS = 1_000;

type Refusal = Extract<KeyVerdict, { kind: 'refused' }>;

/**
 * Headers of OpenAI's: of each limit its size, what is left, and when all of it is there again.
 *
 * @see https://platform.openai.com/docs/guides/rate-limits
 */
export function rateHeaders(budget: KeyBudget, limits: KeyLimits): Record<string, string> {
  return {
    ...headersOf('requests', limits.requestsPerMinute, budget.usedRequests),
    ...headersOf('tokens', limits.tokensPerMinute, budget.usedTokens),
  };
}

function headersOf(unit: string, limit: number | null, used: number): Record<string, string> {
  if (limit === null) return {};
  return {
    [`x-ratelimit-limit-${unit}`]: String(limit),
    [`x-ratelimit-remaining-${unit}`]: String(Math.max(0, Math.floor(limit - used + 1e-6))),
    [`x-ratelimit-reset-${unit}`]: durationOf((used * MINUTE_MS) / limit),
  };
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
export function overLimit({ limit, freeInMs, budget }: Refusal, limits: KeyLimits): RequestError {
  const waitMs = Math.max(1, Math.ceil(freeInMs ?? RETRY_IN_FLIGHT_MS));
  const size = limits[limit] ?? 0;
  const wait = `try again in ${durationOf(waitMs)}`;
  const messages: Record<keyof KeyLimits, string> = {
    requestsPerMinute: `Rate limit reached: this key may send ${size} requests a minute (requests_per_minute); ${wait}`,
    tokensPerMinute: `Rate limit reached: this key may use ${size} tokens a minute (tokens_per_minute), prompts and completions, and has used ${Math.ceil(budget.usedTokens)}; ${wait}`,
    maxRequestsInFlight: `Rate limit reached: this key may have ${size} requests in flight (max_requests_in_flight), and has as many; try again when one of them has ended`,
  };
  return new RequestError('rate_limit_exceeded', messages[limit], {
    headers: {
      'retry-after': String(Math.ceil(waitMs / 1000)),
      'retry-after-ms': String(waitMs),
      ...rateHeaders(budget, limits),
    },
  });
}
