export interface CircuitBreakerOptions {
  /** Wait before the first probe of an open breaker, ms. Doubles with each failed probe. Called each time. */
  readonly probeAfterMs: () => number;
  /** Maximum wait between two probes, ms. */
  readonly maxProbeAfterMs: number;
  /** Clock, ms. Default: `performance.now`. */
  readonly now?: () => number;
}

/** Consecutive failed requests that open a closed breaker. A single one may be the request's fault. */
const MAX_FAILURES = 3;

/**
 * Breaker of one server: opens after consecutive failed requests and allows probes at intervals. After a
 * successful probe it is half-open: one failure opens it again.
 *
 * @see M. T. Nygard, Release It!, second edition, section 5.2
 */
export class CircuitBreaker {
  readonly #options: CircuitBreakerOptions;
  readonly #now: () => number;
  #numFailures = 0;
  #numFailedProbes = 0;
  #openSince: number | null = null;

  constructor(options: CircuitBreakerOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  get isOpen(): boolean {
    return this.#openSince !== null;
  }

  /** Failed requests since the last successful one. */
  get numFailures(): number {
    return this.#numFailures;
  }

  get isProbeDue(): boolean {
    const { probeAfterMs, maxProbeAfterMs } = this.#options;
    const waitMs = Math.min(probeAfterMs() * 2 ** this.#numFailedProbes, maxProbeAfterMs);
    return this.#openSince !== null && this.#now() - this.#openSince >= waitMs;
  }

  succeed(): void {
    this.#numFailures = 0;
    this.#numFailedProbes = 0;
    this.#openSince = null;
  }

  /** Records a request that failed by the server's fault. */
  fail(): void {
    this.#numFailures += 1;
    if (this.#numFailures >= MAX_FAILURES) this.#openSince ??= this.#now();
  }

  /** Records a failed probe: the next one waits longer. */
  failProbe(): void {
    this.#numFailedProbes += 1;
    this.#openSince = this.#now();
  }

  /** Records a successful probe: requests are allowed, and the first failure opens the breaker again. */
  passProbe(): void {
    if (this.#openSince === null) return;
    this.#openSince = null;
    this.#numFailures = MAX_FAILURES - 1;
  }
}
