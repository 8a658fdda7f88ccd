import { TrainyardApiError, TrainyardConnectionError } from './errors.ts';

/** Period in which the service is unreachable, for example during a restart. */
export interface Outage {
  readonly baseUrl: string;
  /** reason of the last failure */
  readonly reason: string;
  /** wait before the call fails, ms */
  readonly maxOutageMs: number;
}

export interface OutageOptions {
  /** maximum outage before the call fails, ms */
  readonly maxOutageMs?: number | undefined;
  /** called once per outage, when it is detected */
  readonly onOutage?: ((outage: Outage) => void) | undefined;
}

/** Ten minutes: a service with large models takes several to restart. */
export const PATIENT_OUTAGE_MS = 600_000;

/** Lowest status of a proxy whose service is away, and of a service that starts or stops. */
const FIRST_AWAY_STATUS = 502;

/** Measures outages and decides how long to retry. */
export class OutageClock {
  readonly #baseUrl: string;
  readonly #options: OutageOptions & { maxOutageMs: number };
  #startedAt: number | null = null;

  constructor(baseUrl: string, options: OutageOptions & { maxOutageMs: number }) {
    this.#baseUrl = baseUrl;
    this.#options = options;
  }

  end(): void {
    this.#startedAt = null;
  }

  /**
   * Records a failed attempt.
   *
   * @param isAway default: derived from the error
   * @returns true if a retry is worthwhile: the service is unreachable, and not for too long
   */
  note(error: unknown, isAway = isOutage(error)): boolean {
    if (!isAway) return false;
    const { maxOutageMs, onOutage } = this.#options;
    if (this.#startedAt === null) {
      this.#startedAt = performance.now();
      if (maxOutageMs > 0) onOutage?.({ baseUrl: this.#baseUrl, reason: reasonOf(error), maxOutageMs });
    }
    return performance.now() - this.#startedAt < maxOutageMs;
  }
}

function isOutage(error: unknown): boolean {
  if (error instanceof TrainyardApiError) return error.status >= FIRST_AWAY_STATUS;
  return error instanceof TrainyardConnectionError;
}

function reasonOf(error: unknown): string {
  if (error instanceof TrainyardConnectionError) return error.reason;
  return error instanceof Error ? error.message : String(error);
}

/** Writes one line about an outage to the console. */
export function warnOfOutage({ baseUrl, reason, maxOutageMs }: Outage): void {
  console.warn(
    `Trainyard: ${baseUrl} is unreachable (${reason}). Waiting up to ${Math.round(maxOutageMs / 60_000)} min.`,
  );
}
