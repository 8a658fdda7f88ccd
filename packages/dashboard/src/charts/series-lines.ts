import type { SeriesObject } from '@trainyard/sdk';

import type { ChartLine } from './chart-line.ts';

/** A series as a line. Points that merge several steps get an area from minimum to maximum. */
export function lineOf(series: SeriesObject, color: ChartLine['color'], name: string = series.name): ChartLine {
  const isReduced = series.count.some((count) => count > 1);
  return {
    name,
    color,
    x: series.last,
    y: series.mean,
    ...(isReduced ? { band: { low: series.min, high: series.max } } : {}),
  };
}

/** A line with an area of one deviation to both sides, at the places that both series have. */
export function lineWithDeviation(
  mean: SeriesObject,
  deviation: SeriesObject | undefined,
  color: ChartLine['color'],
  name: string,
): ChartLine {
  const deviationAt = new Map(deviation?.last.map((place, index) => [place, deviation.mean[index] ?? 0]));
  if (deviationAt.size === 0) return lineOf(mean, color, name);
  const low = mean.mean.map((value, index) => value - (deviationAt.get(mean.last[index]!) ?? 0));
  const high = mean.mean.map((value, index) => value + (deviationAt.get(mean.last[index]!) ?? 0));
  return { name, color, x: mean.last, y: mean.mean, band: { low, high } };
}
