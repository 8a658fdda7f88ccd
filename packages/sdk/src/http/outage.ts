import { TrainyardApiError, TrainyardConnectionError } from './errors.ts';

/** A time in which the service cannot be reached: it is being restarted, say. */
export interface Outage {
  readonly baseUrl: string;
  /** why the last try failed */
  readonly reason: string;
  /** how long it is waited for before the call fails, ms */
  readonly maxOutageMs: number;
}

export interface OutageOptions {
  /** how long the service may be out of reach before the call fails, ms */
  readonly maxOutageMs?: number | undefined;
  /** called once for each outage, when it is noticed */
  readonly onOutage?: ((outage: Outage) => void) | undefined;
}

/** Ten minutes: a service that opens large models takes some of them to restart. */
export const PATIENT_OUTAGE_MS = 600_000;

/** From this status on a proxy says that its service is away, and a service that it starts or ends. */
const FIRST_AWAY_STATUS = 502;

/** Measures one outage after the other and says how long to go on. */
export class OutageClock {
  readonly #baseUrl: string;
  readonly #options: OutageOptions & { maxOutageMs: number };
  #startedAt: number | null = null;

  constructor(baseUrl: string, options: OutageOptions & { maxOutageMs: number }) {
    this.#baseUrl = baseUrl;
    this.#options = options;
  }

  /** The service answered. */
  end(): void {
    this.#startedAt = null;
  }

  /**
   * Notes a failed try.
   *
   * @param isAway default: whether the error says so
   * @returns whether another one is worth it: the service is out of reach, and not for too long
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
