import type { CallOptions } from '../index.ts';
import type { PolicyModel } from './policy-model.ts';

export interface Best {
  readonly step: number;
  readonly value: number;
}

/** Detects when a metric has stopped improving, and the best step. */
export class EarlyStop {
  readonly #patience: number;
  readonly #minDelta: number;
  #best: Best | null = null;
  #numWithout = 0;

  /**
   * @param options `patience`: consecutive evaluations without a new best before it stops, default 3;
   *   `minDelta`: minimum improvement of a new best, default 0
   */
  constructor(options: { patience?: number; minDelta?: number } = {}) {
    this.#patience = options.patience ?? 3;
    this.#minDelta = options.minDelta ?? 0;
  }

  /** Null before the first value. */
  get best(): Best | null {
    return this.#best;
  }

  /** @param value higher is better; NaN is no new best @returns true to stop */
  observe({ step, value }: Best): boolean {
    if (value > (this.#best === null ? -Infinity : this.#best.value + this.#minDelta)) {
      this.#best = { step, value };
      this.#numWithout = 0;
    } else this.#numWithout += 1;
    return this.#numWithout >= this.#patience;
  }
}

/**
 * Kept checkpoint with the highest value of a metric, the earliest of equal ones. The reward of a step is the
 * mean over rollouts sampled from that step.
 *
 * @param metric e.g. `val/reward`. Default: `val/reward` if any checkpoint has it, else `train/reward`, as
 *   for the name `NAME:best`
 * @returns the step, its value and the `name` to sample from; null if no checkpoint has the metric
 */
export async function bestCheckpoint(
  model: PolicyModel,
  metric?: string,
  options: CallOptions = {},
): Promise<(Best & { readonly name: string }) | null> {
  let best: Best | null = null;
  if (metric === undefined) {
    ({ best } = await model.client.models.retrieve(model.id, options));
    return best === null ? null : { step: best.step, value: best.value, name: `${model.name}:step${best.step}` };
  }
  for await (const { step, metrics } of model.client.checkpoints.list(model.id, { limit: 100 }, options)) {
    const value = metrics[metric];
    if (value !== undefined && value > (best?.value ?? -Infinity)) best = { step, value };
  }
  return best === null ? null : { ...best, name: `${model.name}:step${best.step}` };
}
