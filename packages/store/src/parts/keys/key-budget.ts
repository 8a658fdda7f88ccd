import type { KeyAnswer, KeyBudget, KeyLimits, KeySpending, KeyVerdict, LimitedWork } from './key-limits.ts';
import type { Tables } from '../tables.ts';

const MINUTE_MS = 60_000;
/** Time for which a process owns its places in flight after a report. It reports three times as often. */
const IN_FLIGHT_LEASE_MS = 15_000;
/** Tolerance above the rounding of summed fractions, so that no place is missed. */
const ROUNDING = 1e-6;

export function fullBudget(now: number): KeyBudget {
  return { usedRequests: 0, usedTokens: 0, at: now, numByOthers: 0 };
}

/**
 * Returns the budget as of that time. A clock that goes back a little does not refill twice; one set back by
 * more than a minute counts from there. Budgets without a limit are not counted.
 */
export function refilled(budget: KeyBudget, limits: KeyLimits, now: number): KeyBudget {
  const minutes = Math.max(0, now - budget.at) / MINUTE_MS;
  const left = (used: number, limit: number | null) => (limit === null ? 0 : Math.max(0, used - minutes * limit));
  return {
    ...budget,
    usedRequests: left(budget.usedRequests, limits.requestsPerMinute),
    usedTokens: left(budget.usedTokens, limits.tokensPerMinute),
    at: budget.at - now > MINUTE_MS ? now : Math.max(budget.at, now),
  };
}

/**
 * Decides if a request may start; if so, the budget of the verdict includes it.
 *
 * @param budget refilled
 * @param numHere requests of this process in flight
 */
export function judge(budget: KeyBudget, limits: KeyLimits, work: LimitedWork, numHere: number): KeyVerdict {
  const { requestsPerMinute, tokensPerMinute, maxRequestsInFlight } = limits;
  const refuse = (limit: keyof KeyLimits, freeInMs: number | null): KeyVerdict => ({
    kind: 'refused',
    limit,
    freeInMs,
    budget,
  });
  const isSampling = work === 'sample';
  if (isSampling && maxRequestsInFlight !== null && budget.numByOthers + numHere >= maxRequestsInFlight)
    return refuse('maxRequestsInFlight', null);
  if (requestsPerMinute !== null) {
    const missing = budget.usedRequests + 1 - requestsPerMinute;
    if (missing > ROUNDING) return refuse('requestsPerMinute', (missing * MINUTE_MS) / requestsPerMinute);
  }
  if (isSampling && tokensPerMinute !== null) {
    // Requires one whole token, because the number of tokens is not known yet.
    const missing = budget.usedTokens + 1 - tokensPerMinute;
    if (missing > ROUNDING) return refuse('tokensPerMinute', (missing * MINUTE_MS) / tokensPerMinute);
  }
  const usedRequests = budget.usedRequests + (requestsPerMinute === null ? 0 : 1);
  return { kind: 'granted', budget: { ...budget, usedRequests } };
}

/** Books the process's use in a transaction, and decides which requests may start. */
export async function spendKeyLimits(
  { keyBudgets }: Tables,
  spendings: readonly KeySpending[],
  { processId, now }: { processId: string; now: number },
): Promise<KeyAnswer[]> {
  const answers: KeyAnswer[] = [];
  for (const { keyId, limits, wanted, numBegun, numTokens, numInFlight } of spendings) {
    const countsInFlight = limits.maxRequestsInFlight !== null;
    const numByOthers = countsInFlight ? await keyBudgets.countByOthers(keyId, processId, now) : 0;
    const stored = (await keyBudgets.get(keyId)) ?? fullBudget(now);
    const before = refilled({ ...stored, numByOthers }, limits, now);
    let budget: KeyBudget = {
      ...before,
      usedRequests: before.usedRequests + (limits.requestsPerMinute === null ? 0 : numBegun),
      usedTokens: before.usedTokens + (limits.tokensPerMinute === null ? 0 : numTokens),
    };
    let numHere = numInFlight;
    const verdicts = wanted.map((work) => {
      const verdict = judge(budget, limits, work, numHere);
      if (verdict.kind === 'granted' && work === 'sample') numHere += 1;
      budget = verdict.budget;
      return verdict;
    });
    await keyBudgets.put(keyId, budget);
    if (countsInFlight) await keyBudgets.setInFlight(keyId, processId, numHere, now + IN_FLIGHT_LEASE_MS);
    answers.push({ budget, verdicts });
  }
  return answers;
}
