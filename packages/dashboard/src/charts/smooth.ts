/**
 * Exponential moving average with bias correction: the weighted sum is divided by the sum of its weights, as
 * in Adam.
 *
 * @param strength of the past, 0 (none) to below 1
 */
export function smooth(values: readonly number[], strength: number): number[] {
  let mean = 0;
  let weight = 0;
  return values.map((value) => {
    mean = strength * mean + (1 - strength) * value;
    weight = strength * weight + (1 - strength);
    return mean / weight;
  });
}
