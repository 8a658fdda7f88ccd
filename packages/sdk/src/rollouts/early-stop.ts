import type { CallOptions } from '../index.ts';
import type { PolicyModel } from './policy-model.ts';

export interface Best {
  readonly step: number;
  readonly value: number;
}

/** Says when a metric has stopped getting better, and which step was the best. */
export class EarlyStop {
  readonly #patience: number;
  readonly #minDelta: number;
  #best: Best | null = null;
  #numWithout = 0;

  /**
   * @param options `patience`: evaluations in a row without a new best after which it stops, default 3; `minDelta`: by how much a new best must be better,
   *   default 0
   */
  constructor(options: { patience?: number; minDelta?: number } = {}) {
    this.#patience = options.patience ?? 3;
    this.#minDelta = options.minDelta ?? 0;
  }

  /** Null before the first value. */
  get best(): Best | null {
    return this.#best;
  }

  /** @param value more is better; NaN is no new best @returns whether to stop */
  observe({ step, value }: Best): boolean {
    if (value > (this.#best === null ? -Infinity : this.#best.value + this.#minDelta)) {
      this.#best = { step, value };
      this.#numWithout = 0;
    } else this.#numWithout += 1;
    return this.#numWithout >= this.#patience;
  }
}

/**
 * The kept checkpoint with the highest value of a metric; of equal ones the earliest. The reward of a step is the mean over rollouts drawn from that step.
 *
 * @param metric E.g. `val/reward`. Default: `val/reward` if any checkpoint has it, else `train/reward`, as in the name `NAME:best`.
 * @returns The step, its value and the `name` to sample from; null if no checkpoint has the metric.
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
