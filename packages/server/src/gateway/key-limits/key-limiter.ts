import {
  fullBudget,
  judge,
  type KeyAnswer,
  type KeyBudget,
  type KeyLimits,
  type Keys,
  type KeySpending,
  type KeyVerdict,
  type LimitedWork,
  refilled,
  type StoreClock,
} from '@trainyard/store';

import { isPassing } from '../../seams/faults/passing-fault.ts';
import type { Log } from '../../seams/logging/log.ts';
import { Admission } from './admission.ts';
import { openaiRateHeaders, overLimit, type RateHeaders } from './limit-words.ts';

/**
 * Interval of reporting tokens of running requests; other processes over-admit at most the tokens of that
 * time.
 */
const REPORT_MS = 1_000;
/** Delay until other processes learn of a request's end. Ends within it are reported together. */
const RELEASE_MS = 100;
/** Duration of places in flight, and interval of their renewal. */
const LEASE_MS = 15_000;
const RENEWAL_MS = 5_000;
/** Time after which a bucket is full, unless it is in debt, which the store has. */
const FORGET_MS = 60_000;

export interface KeyLimiterOptions {
  readonly store: { readonly keys: Pick<Keys, 'spend'>; readonly clock: Pick<StoreClock, 'now'> };
  /** called for each refused request */
  readonly onRefusal?: (limit: keyof KeyLimits) => void;
  readonly log?: Log;
}

/** A request that waits for its verdict. */
interface Question {
  readonly work: LimitedWork;
  readonly resolve: (verdict: KeyVerdict) => void;
  readonly reject: (error: unknown) => void;
}

/** This process's state of a limited key. */
class LimitedKey {
  readonly id: string;
  limits: KeyLimits;
  questions: Question[] = [];
  /** Requests of this process that count as in flight. */
  numInFlight = 0;
  readonly live = new Set<Admission>();
  /** Used, but not reported yet. */
  numTokens = 0;
  numBegun = 0;
  /** The number in flight here has changed since the last report. */
  hasMoved = false;
  /** As of the store's last answer. Null: unknown. */
  budget: KeyBudget | null = null;
  reportedAt = -Infinity;

  constructor(id: string, limits: KeyLimits) {
    this.id = id;
    this.limits = limits;
  }

  /** Counts tokens of running requests since the last time. */
  readMeters(): void {
    for (const admission of this.live) this.numTokens += admission.takeTokens();
  }

  get hasNews(): boolean {
    return this.questions.length > 0 || this.numTokens > 0 || this.numBegun > 0 || this.hasMoved;
  }

  get holdsPlaces(): boolean {
    return this.limits.maxRequestsInFlight !== null && this.numInFlight > 0;
  }

  /**
   * A certain refusal without asking the store: others can only have used more than is known here. So a
   * client that does not wait costs the store nothing.
   * @returns null if the store must decide
   */
  refusal(work: LimitedWork, now: number): KeyVerdict | null {
    const verdict = judge(this.#knownBudget(now, 0), this.limits, work, this.numInFlight);
    return verdict.kind === 'refused' ? verdict : null;
  }

  /** Verdict without the store: an admitted request is reported later. */
  judgeAlone(work: LimitedWork, now: number): KeyVerdict {
    const isRecent = performance.now() - this.reportedAt < LEASE_MS;
    const known = this.#knownBudget(now, isRecent ? (this.budget?.numByOthers ?? 0) : 0);
    const verdict = judge(known, this.limits, work, this.numInFlight);
    if (verdict.kind === 'refused') return verdict;
    // Unreported tokens and requests are not part of the stored budget.
    this.numBegun += 1;
    return verdict;
  }

  /** The stored budget, less this process's use since then. */
  #knownBudget(now: number, numByOthers: number): KeyBudget {
    const stored = refilled(this.budget ?? fullBudget(now), this.limits, now);
    const { requestsPerMinute, tokensPerMinute } = this.limits;
    return {
      ...stored,
      usedRequests: stored.usedRequests + (requestsPerMinute === null ? 0 : this.numBegun),
      usedTokens: stored.usedTokens + (tokensPerMinute === null ? 0 : this.numTokens),
      numByOthers,
    };
  }
}

/**
 * Admits or refuses requests of limited keys, together with all processes that share the store. One write is
 * in progress at a time, and requests meanwhile join the next one. While the store is not writable, the last
 * known state decides.
 * @see docs/decisions/0043-key-limits-shared-by-processes.md
 */
export class KeyLimiter {
  readonly #store: KeyLimiterOptions['store'];
  readonly #onRefusal: (limit: keyof KeyLimits) => void;
  readonly #log: Log;
  readonly #keys = new Map<string, LimitedKey>();
  #reporting: Promise<void> | null = null;
  #beat: NodeJS.Timeout | null = null;
  #release: NodeJS.Timeout | null = null;
  #isFailing = false;

  constructor({ store, onRefusal = () => undefined, log = () => undefined }: KeyLimiterOptions) {
    this.#store = store;
    this.#onRefusal = onRefusal;
    this.#log = log;
  }

  /**
   * @param toHeaders headers for its client. Default: OpenAI's
   * @returns an admission; the caller reports its end
   * @throws {RequestError} `rate_limit_exceeded`
   */
  async admit(
    keyId: string,
    limits: KeyLimits,
    work: LimitedWork,
    toHeaders: RateHeaders = openaiRateHeaders,
  ): Promise<Admission> {
    const key = this.#keys.get(keyId) ?? new LimitedKey(keyId, limits);
    this.#keys.set(keyId, key);
    key.limits = limits;
    const verdict =
      key.refusal(work, this.#store.clock.now()) ??
      (await new Promise<KeyVerdict>((resolve, reject) => {
        key.questions.push({ work, resolve, reject });
        this.#report();
      }));
    if (verdict.kind === 'refused') {
      this.#onRefusal(verdict.limit);
      throw overLimit(verdict, limits, toHeaders);
    }
    const admission = new Admission(
      { limits, hasPlace: work === 'sample', headers: toHeaders(verdict.budget, limits) },
      (measured) => {
        key.numTokens += measured.takeTokens();
        this.#reportSoon();
      },
    );
    key.live.add(admission);
    this.#beat ??= setInterval(() => this.#reportAll(), REPORT_MS).unref();
    return admission;
  }

  /** Ends a request. Only the first call counts. */
  end(keyId: string, admission: Admission): void {
    const key = this.#keys.get(keyId);
    if (key === undefined || !key.live.delete(admission)) return;
    key.numTokens += admission.takeTokens();
    if (!admission.hasPlace) return;
    key.numInFlight -= 1;
    key.hasMoved ||= key.limits.maxRequestsInFlight !== null;
    this.#reportSoon();
  }

  /** Reports the rest, once. */
  async close(): Promise<void> {
    if (this.#beat !== null) clearInterval(this.#beat);
    if (this.#release !== null) clearTimeout(this.#release);
    await this.#reporting;
    this.#report();
    await this.#reporting;
  }

  #reportSoon(): void {
    this.#release ??= setTimeout(() => {
      this.#release = null;
      this.#report();
    }, RELEASE_MS).unref();
  }

  /** Reports each second: tokens, places still held, and earlier failed reports. */
  #reportAll(): void {
    const now = performance.now();
    for (const key of this.#keys.values()) {
      key.readMeters();
      if (key.holdsPlaces && now - key.reportedAt >= RENEWAL_MS) key.hasMoved = true;
      if (key.live.size === 0 && !key.hasNews && now - key.reportedAt >= FORGET_MS) this.#keys.delete(key.id);
    }
    this.#report();
    if (this.#keys.size > 0 || this.#beat === null) return;
    clearInterval(this.#beat);
    this.#beat = null;
  }

  #report(): void {
    if (this.#reporting !== null || ![...this.#keys.values()].some(({ hasNews }) => hasNews)) return;
    this.#reporting = this.#reportOnce().finally(() => {
      this.#reporting = null;
      if ([...this.#keys.values()].some(({ questions }) => questions.length > 0)) this.#report();
    });
  }

  async #reportOnce(): Promise<void> {
    const news = [...this.#keys.values()].filter(({ hasNews }) => hasNews).map((key) => new News(key));
    try {
      const answers = await this.#store.keys.spend(news.map(({ spending }) => spending));
      for (const [index, one] of news.entries()) one.answer(answers[index] as KeyAnswer);
      this.#saw(null);
    } catch (error) {
      for (const one of news) one.takeBack(isPassing(error) ? this.#store.clock.now() : error);
      this.#saw(error as Error);
    }
  }

  #saw(error: Error | null): void {
    if (this.#isFailing === (error !== null)) return;
    this.#isFailing = error !== null;
    if (error === null) this.#log('key limits are shared with other processes again');
    else this.#log(`key limits apply only to this process for now: ${error.message}`, { level: 'warn' });
  }
}

/** Part of one write that concerns a key. */
class News {
  readonly spending: KeySpending;
  readonly #key: LimitedKey;
  readonly #questions: readonly Question[];

  constructor(key: LimitedKey) {
    const { id: keyId, limits, questions, numBegun, numTokens, numInFlight } = key;
    this.#key = key;
    this.#questions = questions;
    this.spending = { keyId, limits, wanted: questions.map(({ work }) => work), numBegun, numTokens, numInFlight };
    key.questions = [];
    key.numBegun = 0;
    key.numTokens = 0;
    key.hasMoved = false;
  }

  answer({ budget, verdicts }: KeyAnswer): void {
    this.#key.budget = budget;
    this.#key.reportedAt = performance.now();
    for (const [index, verdict] of verdicts.entries()) this.#resolve(index, verdict);
  }

  /**
   * Restores the data of a failed write.
   * @param reason error for the waiting requests; a time: they are decided by the known state at that time
   */
  takeBack(reason: unknown): void {
    const key = this.#key;
    key.numBegun += this.spending.numBegun;
    key.numTokens += this.spending.numTokens;
    key.hasMoved ||= key.limits.maxRequestsInFlight !== null;
    for (const [index, question] of this.#questions.entries()) {
      if (typeof reason !== 'number') {
        question.reject(reason);
        continue;
      }
      this.#resolve(index, key.judgeAlone(question.work, reason));
    }
  }

  /** Counts its place before the next verdict. */
  #resolve(index: number, verdict: KeyVerdict): void {
    const question = this.#questions[index];
    if (question === undefined) throw new Error('there are as many verdicts as questions');
    if (verdict.kind === 'granted' && question.work === 'sample') this.#key.numInFlight += 1;
    question.resolve(verdict);
  }
}
