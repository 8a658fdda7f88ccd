/** Shape after the warm-up: constant, or decaying along a line or half a cosine. */
export type ScheduleShape = 'constant' | 'linear' | 'cosine';

/** Steps count from 0. */
export interface LearningRateSchedule {
  readonly shape: ScheduleShape;
  /** Full rate. */
  readonly peak: number;
  /** One step before the first. */
  readonly initial: number;
  /** Steps below the full rate, or on the way to it. */
  readonly numWarmupSteps: number;
  /**
   * Equal parts of the warm-up: `numWarmupSteps` if its last step has the full rate, one more if the step after it
   * has.
   */
  readonly numWarmupParts: number;
  /** No effect if the shape is constant. */
  readonly final: number;
  /** First step with the final rate. No effect if the shape is constant. */
  readonly finalStep: number;
}

/**
 * Learning rate of a gradient step.
 *
 * With warm-up w in n parts and final step d, it is initial + (peak - initial) · (t + 1) / n for t < w, and
 * after that, over p = min((t - w) / (d - w), 1): `linear` final + (peak - final) · (1 - p), `cosine` final +
 * (peak - final) · (1 + cos πp) / 2, `constant` the peak.
 *
 * @see cosine: Loshchilov & Hutter, SGDR, arXiv 1608.03983, equation 5 without restarts
 */
export function learningRateAt(step: number, schedule: LearningRateSchedule): number {
  const { shape, initial, peak, final, numWarmupSteps, numWarmupParts, finalStep } = schedule;
  if (step < numWarmupSteps) return initial + (peak - initial) * ((step + 1) / numWarmupParts);
  const numDecaySteps = finalStep - numWarmupSteps;
  const progress = numDecaySteps > 0 ? Math.min((step - numWarmupSteps) / numDecaySteps, 1) : 0;
  switch (shape) {
    case 'constant':
      return peak;
    case 'linear':
      return final + (peak - final) * (1 - progress);
    case 'cosine':
      return final + ((peak - final) * (1 + Math.cos(Math.PI * progress))) / 2;
    default:
      return shape satisfies never;
  }
}
