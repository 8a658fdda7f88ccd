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
    ...discardedOf(series),
    ...(isReduced ? { band: { low: series.min, high: series.max } } : {}),
  };
}

function discardedOf({ discarded: { at, value, job_id: jobs } }: SeriesObject): Pick<ChartLine, 'discarded'> {
  return at.length === 0 ? {} : { discarded: { x: at, y: value, jobs } };
}

/** The lines, each followed by its discarded values as a line: for tables. */
export function withDiscarded(lines: readonly ChartLine[]): readonly ChartLine[] {
  return lines.flatMap((line) => {
    const { name, color, discarded } = line;
    return discarded === undefined
      ? [line]
      : [line, { name: `${name} (failed or cancelled)`, color, x: discarded.x, y: discarded.y }];
  });
}

/** A line with all values replaced. */
export function mappedLine(line: ChartLine, map: (value: number) => number): ChartLine {
  const { band, discarded } = line;
  return {
    ...line,
    y: line.y.map(map),
    // A falling function exchanges the edges.
    ...(band === undefined
      ? {}
      : {
          band: {
            low: band.low.map((low, index) => Math.min(map(low), map(band.high[index]!))),
            high: band.high.map((high, index) => Math.max(map(high), map(band.low[index]!))),
          },
        }),
    ...(discarded === undefined ? {} : { discarded: { ...discarded, y: discarded.y.map(map) } }),
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
  return { name, color, x: mean.last, y: mean.mean, ...discardedOf(mean), band: { low, high } };
}
