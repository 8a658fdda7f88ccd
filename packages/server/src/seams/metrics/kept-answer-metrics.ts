import type { Registry } from 'prom-client';

import { addKnownGauge } from './known-gauge.ts';
import { MinuteFigures } from './minute-figures.ts';

interface KeptTotals {
  readonly answers: { readonly numAnswers: number; readonly sizeBytes: number };
  readonly conversations: { readonly numConversations: number; readonly sizeBytes: number };
}

export interface KeptAnswerFigures {
  readonly numRunning: () => number;
  readonly count: () => Promise<KeptTotals>;
}

export class KeptAnswerMetrics {
  /** Source of the figures; without one they are omitted. */
  source: KeptAnswerFigures | null = null;
  readonly #minute = new MinuteFigures(async () => (await this.source?.count().catch(() => null)) ?? null);

  constructor(registry: Registry) {
    const shared = 'Same source as trainyard_jobs; up to a minute old.';
    addKnownGauge(
      registry,
      'kept_answers',
      `Kept answers of /v1/responses. ${shared}`,
      async () => (await this.#totals())?.answers.numAnswers ?? null,
    );
    addKnownGauge(
      registry,
      'kept_answer_bytes',
      `Compressed size of kept answers. ${shared}`,
      async () => (await this.#totals())?.answers.sizeBytes ?? null,
    );
    addKnownGauge(
      registry,
      'conversations',
      `Conversations of /v1/conversations. ${shared}`,
      async () => (await this.#totals())?.conversations.numConversations ?? null,
    );
    addKnownGauge(
      registry,
      'conversation_bytes',
      `Room of conversations, compressed. ${shared}`,
      async () => (await this.#totals())?.conversations.sizeBytes ?? null,
    );
    addKnownGauge(
      registry,
      'answers_in_background',
      'Background answers that this process computes.',
      async () => this.source?.numRunning() ?? null,
    );
  }

  /** Null without a source, and for a minute after a failed read. */
  async #totals(): Promise<KeptTotals | null> {
    return this.source === null ? null : await this.#minute.read();
  }
}
