import type { SeriesObject } from '@trainyard/sdk';

/** Places of a series on an axis: one per point, and one per discarded value. */
export interface AxisPlaces {
  readonly points: readonly number[];
  readonly discarded: readonly number[];
}

const SECONDS_PER_HOUR = 3600;

/** Hours since the model was made, at each point. @param since Unix seconds */
export function hoursOf(series: SeriesObject, since: number): AxisPlaces {
  const points = series.recorded_at.map((at) => Math.max(0, at - since) / SECONDS_PER_HOUR);
  return { points, discarded: series.discarded.at.map((step) => placeBefore(series.last, points, step)) };
}

/**
 * Tokens trained up to each point. @param tokens trained tokens of each gradient step, on the axis of steps;
 * undefined while it loads
 */
export function tokensOf(series: SeriesObject, tokens: SeriesObject | undefined): AxisPlaces {
  let sum = 0;
  const sums = tokens?.mean.map((mean, index) => (sum += mean * tokens.count[index]!)) ?? [];
  const at = (step: number) => placeBefore(tokens?.last ?? [], sums, step);
  return { points: series.last.map(at), discarded: series.discarded.at.map(at) };
}

/** Value of the last step at or before that one; 0 before the first. */
function placeBefore(steps: readonly number[], values: readonly number[], step: number): number {
  const index = steps.findLastIndex((other) => other <= step);
  return index < 0 ? 0 : values[index]!;
}

/** Step of the point that is nearest on the axis. @param steps ascending, as `places` */
export function stepAt(places: readonly number[], steps: readonly number[], place: number): number | null {
  let nearest: number | null = null;
  let distance = Infinity;
  for (const [index, other] of places.entries()) {
    const apart = Math.abs(other - place);
    if (apart < distance) [nearest, distance] = [steps[index] ?? null, apart];
  }
  return nearest;
}
