import type { GoodRange } from './chart-line.ts';

const MARGIN = 0.05;

/**
 * Range of a linear axis. Numbers that are not negative start at 0 or above, and those up to 1 (shares and most
 * rewards) end at 1 or below, apart from the margin; a constant is shown between 0 and a value of its size.
 */
export function linearRange(min: number, max: number): [number, number] {
  let [low, high] = [min, max];
  if (min === max) [low, high] = min < 0 ? [2 * min, 0] : [0, looksLikeShare(min) ? 1 : 2 * min];
  const margin = (high - low) * MARGIN;
  const isShare = min >= 0 && max <= 1;
  return [
    min >= 0 ? Math.max(low - margin, -MARGIN * high) : low - margin,
    isShare ? Math.min(high + margin, 1 + MARGIN) : high + margin,
  ];
}

/** Learning rates and gaps are far smaller than shares. */
function looksLikeShare(value: number): boolean {
  return value === 0 || (value >= 0.05 && value <= 1);
}

/** Range of a logarithmic axis in whole decades, which includes the good values. Both numbers are positive. */
export function logRange(min: number, max: number, good: GoodRange | undefined): [number, number] {
  const low = Math.min(min, good === undefined || good.from <= 0 ? min : good.from);
  const high = Math.max(max, good?.to ?? max);
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  return [10 ** from, 10 ** Math.max(to, from + 1)];
}

/** Value that stands for 0 and below on a logarithmic axis: a decade below the least positive one. */
export function logFloor(values: readonly number[]): number | null {
  const least = values.reduce((min, value) => (value > 0 ? Math.min(min, value) : min), Infinity);
  return Number.isFinite(least) ? 10 ** (Math.floor(Math.log10(least)) - 1) : null;
}

/**
 * Range of the x axis; a single place is in the middle, but no axis starts below 0.
 * @param min and `max` of uPlot, which are 0 and twice the value, or 100, for a single place
 */
export function placeRange(places: readonly number[], min: number, max: number): [number, number] {
  const [first, second] = places;
  if (first !== undefined && second === undefined) return [Math.max(0, first - 1), first + 1];
  return [min, max];
}

/** Decades of a logarithmic axis with a line and a label; more would be a solid area. */
const MAX_DECADES = 6;

/** Ticks of a logarithmic axis that are drawn: over two decades and more only powers of ten; null for the others. */
export function logTicks(ticks: readonly number[]): (number | null)[] {
  const exponents = ticks.map((tick) => Math.log10(tick));
  const isPower = (exponent: number) => Math.abs(exponent - Math.round(exponent)) < 1e-6;
  const powers = exponents.filter(isPower).map(Math.round);
  if (powers.length <= 2) return [...ticks];
  const every = Math.ceil(powers.length / MAX_DECADES);
  return ticks.map((tick, index) => {
    const exponent = exponents[index]!;
    return isPower(exponent) && (Math.round(exponent) - powers[0]!) % every === 0 ? tick : null;
  });
}
