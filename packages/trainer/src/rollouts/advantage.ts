import { TrainerError } from '../contract/errors.ts';

/** Added to σ: a group whose rewards differ only by noise is not amplified. */
const SIGMA_EPSILON = 1e-6;

/** Added before dividing by a number of trained tokens. */
const COUNT_EPSILON = 1e-6;

/** Smaller relative differences are rounding: 0.1 + 0.2 against 0.3 is 2e-16. */
const EQUAL_REWARDS_TOLERANCE = 1e-9;

/** Squares of larger rewards could overflow, so they are scaled; ordinary rewards stay unchanged bit for bit. */
const SAFE_MAGNITUDE = 1e100;

/**
 * Centres rewards within one trajectory group (GRPO).
 *
 * @param rewards one finite scalar per trajectory, [G], any scale
 * @param scale `'none'` gives `r - mean`; `'std'` also divides by the population σ + 1e-6
 * @returns advantages, [G]. Null if all rewards are equal (or there are fewer than two): such a group teaches
 * nothing. Equality is checked on the rewards, because arithmetic adds noise: the mean of three 0.1 is not 0.1.
 * Rewards that differ by a billionth of the largest count as equal: the rest is rounding.
 * @throws {TrainerError} `trainer.reward_not_finite` if rewards are so far apart that their difference is not a
 * number
 * @see DeepSeekMath, arXiv 2402.03300, section 4.1; without σ: arXiv 2503.20783
 */
export function groupAdvantages(rewards: readonly number[], scale: 'none' | 'std'): number[] | null {
  const highest = rewards.reduce((max, reward) => Math.max(max, reward), -Infinity);
  const lowest = rewards.reduce((min, reward) => Math.min(min, reward), Infinity);
  const largest = Math.max(Math.abs(highest), Math.abs(lowest));
  if (rewards.length < 2 || highest - lowest <= EQUAL_REWARDS_TOLERANCE * largest) return null;
  const unit = largest > SAFE_MAGNITUDE ? largest : 1;
  const scaled = rewards.map((reward) => reward / unit);
  const { mean, standardDeviation } = moments(scaled);
  const advantages = scaled.map((reward) =>
    scale === 'std' ? (reward - mean) / (standardDeviation + SIGMA_EPSILON / unit) : (reward - mean) * unit,
  );
  if (!advantages.every(Number.isFinite)) {
    throw new TrainerError(
      'trainer.reward_not_finite',
      `rewards up to ${largest} in one group are too far apart to subtract`,
    );
  }
  return advantages;
}

/** Population standard deviation; both 0 for no values. */
export function moments(values: readonly number[]): { mean: number; standardDeviation: number } {
  if (values.length === 0) return { mean: 0, standardDeviation: 0 };
  let sum = 0;
  for (const value of values) sum += value;
  const mean = sum / values.length;
  let squares = 0;
  for (const value of values) squares += (value - mean) ** 2;
  return { mean, standardDeviation: Math.sqrt(squares / values.length) };
}

/** A history, or a whole trajectory: one advantage and one weight. */
export interface CreditInput {
  readonly advantage: number;
  readonly numTokens: number;
  /** Count over all histories of the trajectory, including those dropped for their length. */
  readonly numTrajectoryTokens: number;
}

export interface Credit {
  readonly advantage: number;
  readonly weight: number;
}

/**
 * Gives every trajectory of a job the same total weight regardless of length, and normalises the job:
 * mean(weight) = 1 over all trained tokens, and mean(|advantage| · weight) = mean(weight) over those whose
 * advantage was not 0 from the start.
 *
 * @param inputs with advantage 0: tokens that other terms of the loss train; they do not affect the scale of the
 * rest
 * @param balance b > 0 multiplies negative advantages by 1 - b, b < 0 positive ones by 1 + b; in [-1, 1]
 * @returns same order as `inputs`; null if no advantage is left to scale (for example balance 1 with only
 * negative ones)
 */
export function normalizeCredit(inputs: readonly CreditInput[], balance: number): Credit[] | null {
  const weights = trajectoryWeights(inputs);
  if (weights === null) return null;
  let largest = 0;
  const advantages = inputs.map((input) => {
    const advantage = balanced(input.advantage, balance);
    largest = Math.max(largest, Math.abs(advantage));
    return advantage;
  });
  if (largest === 0) return null;
  // The result does not depend on the unit; extreme ones would overflow the sum or underflow to 0/0.
  const unit = largest > SAFE_MAGNITUDE || largest < 1 / SAFE_MAGNITUDE ? largest : 1;
  let totalScale = 0;
  let totalWeight = 0;
  inputs.forEach((input, i) => {
    if (input.advantage === 0) return;
    totalScale += Math.abs(advantages[i]! / unit) * weights[i]! * input.numTokens;
    totalWeight += weights[i]! * input.numTokens;
  });
  if (totalScale === 0) return null;
  const meanScale = totalScale / totalWeight;
  return advantages.map((advantage, i) => ({ advantage: advantage / unit / meanScale, weight: weights[i]! }));
}

/** 1 / (trained tokens of the trajectory), scaled to a mean of 1 over all trained tokens; null without tokens. */
export function trajectoryWeights(inputs: readonly Omit<CreditInput, 'advantage'>[]): number[] | null {
  let numTokens = 0;
  let totalWeight = 0;
  const raw = inputs.map((input) => {
    const weight = 1 / (input.numTrajectoryTokens + COUNT_EPSILON);
    numTokens += input.numTokens;
    totalWeight += weight * input.numTokens;
    return weight;
  });
  if (numTokens === 0) return null;
  const meanWeight = totalWeight / numTokens;
  return raw.map((weight) => weight / meanWeight);
}

/** @see `normalizeCredit` */
export function balanced(advantage: number, balance: number): number {
  if (balance > 0 && advantage <= 0) return (1 - balance) * advantage;
  if (balance < 0 && advantage >= 0) return (1 + balance) * advantage;
  return advantage;
}
