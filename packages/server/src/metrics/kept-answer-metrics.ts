import { Gauge, type Registry } from 'prom-client';

/** The sums are over all kept answers: scrapes within a minute get the last ones. */
const KEPT_MS = 60_000;

interface KeptAnswerTotals {
  readonly numAnswers: number;
  readonly sizeBytes: number;
}

export interface KeptAnswerFigures {
  /** Answers in the background that this process computes. */
  readonly numRunning: () => number;
  readonly count: () => Promise<KeptAnswerTotals>;
}

/** Kept answers of `/v1/responses`. */
export class KeptAnswerMetrics {
  /** The source of the figures; without, they are left out. */
  source: KeptAnswerFigures | null = null;
  #last: { readonly at: number; readonly totals: Promise<KeptAnswerTotals | null> } | null = null;

  constructor(registry: Registry) {
    const gauge = (name: string, help: string, read: () => Promise<number | null>): void => {
      const one: Gauge = new Gauge({
        name: `trainyard_${name}`,
        help,
        registers: [registry],
        collect: async () => {
          const value = await read();
          if (value === null) one.remove();
          else one.set(value);
        },
      });
    };
    const shared = 'As trainyard_jobs; up to a minute old.';
    gauge(
      'kept_answers',
      `Kept answers of /v1/responses. ${shared}`,
      async () => (await this.#totals())?.numAnswers ?? null,
    );
    gauge(
      'kept_answer_bytes',
      `Room of kept answers, compressed. ${shared}`,
      async () => (await this.#totals())?.sizeBytes ?? null,
    );
    gauge(
      'answers_in_background',
      'Answers in the background that this process computes.',
      async () => this.source?.numRunning() ?? null,
    );
  }

  /** Null without a source, and while the database does not answer. */
  async #totals(): Promise<KeptAnswerTotals | null> {
    const { source } = this;
    if (source === null) return null;
    const now = performance.now();
    if (this.#last === null || now - this.#last.at >= KEPT_MS)
      this.#last = { at: now, totals: source.count().catch(() => null) };
    return await this.#last.totals;
  }
}
