import type uPlot from 'uplot';

import type { ChartLine } from './chart-line.ts';
import { logFloor } from './chart-range.ts';
import { smooth } from './smooth.ts';
import type { ThemeColors } from './theme-colors.ts';

/** Lines of at most this number of places show their points. */
const MAX_POINTS_SHOWN = 40;
/** Dash of each colour, for people who cannot tell the colours apart. */
const DASHES: readonly (readonly number[])[] = [[], [7, 4], [2, 3], [9, 3, 2, 3]];

export interface ChartColumns {
  readonly data: uPlot.AlignedData;
  readonly series: uPlot.Series[];
  readonly bands: uPlot.Band[];
  /** Value drawn for 0 and below on a logarithmic axis; null on a linear one. */
  readonly floor: number | null;
  readonly hasZeros: boolean;
}

/** Merges the places of all lines into one axis; gaps are bridged. */
export function columnsOf({
  lines,
  isLog,
  smoothing,
  colors,
}: {
  lines: readonly ChartLine[];
  isLog: boolean;
  smoothing: number;
  colors: ThemeColors;
}): ChartColumns {
  const all = lines.flatMap(({ x, discarded }) => [...x, ...(discarded?.x ?? [])]);
  const places = [...new Set(all)].toSorted((first, second) => first - second);
  const indexOf = new Map(places.map((place, index) => [place, index]));
  const floor = isLog ? logFloor(lines.flatMap(({ y }) => [...y])) : null;
  const shown = (value: number) => (floor !== null && value < floor ? floor : value);
  const data: (number | null)[][] = [places];
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  const add = (x: readonly number[], values: readonly number[], options: uPlot.Series) => {
    const column: (number | null)[] = places.map(() => null);
    for (const [index, value] of values.entries()) column[indexOf.get(x[index]!)!] = shown(value);
    data.push(column);
    series.push({ spanGaps: true, points: { show: false }, ...options });
    return series.length - 1;
  };
  for (const line of lines) {
    const stroke = colors.series[line.color - 1]!;
    if (line.band !== undefined) {
      const high = add(line.x, line.band.high, { stroke: 'transparent', width: 0 });
      const low = add(line.x, line.band.low, { stroke: 'transparent', width: 0 });
      bands.push({ series: [high, low], fill: `${stroke}24` });
    }
    const dash = DASHES[(line.dash ?? line.color) - 1]!;
    const isSmoothed = smoothing > 0;
    if (isSmoothed) add(line.x, line.y, { stroke: `${stroke}55`, width: 1 });
    add(line.x, isSmoothed ? smooth(line.y, smoothing) : line.y, {
      label: line.name,
      stroke,
      width: 1.75,
      ...(dash.length === 0 ? {} : { dash: [...dash] }),
      points: { show: line.x.length <= MAX_POINTS_SHOWN && !isSmoothed, size: 5, fill: stroke },
    });
    if (line.discarded !== undefined && line.discarded.x.length > 0)
      add(line.discarded.x, discardedInView(line), {
        stroke: 'transparent',
        width: 0,
        points: { show: true, size: 8, width: 1.5, stroke, fill: colors.surface },
      });
  }
  return {
    data: data as uPlot.AlignedData,
    series,
    bands,
    floor,
    hasZeros: lines.some(({ y }) => y.some((value) => value <= 0)),
  };
}

/**
 * Values of failed jobs, which often end in huge ones: those would stretch the axis, so they are drawn at the edge
 * of the line's values. Others keep their place.
 */
export function discardedInView({ y, discarded }: Pick<ChartLine, 'y' | 'discarded'>): number[] {
  const values = discarded?.y ?? [];
  if (y.length === 0) return [...values];
  const low = y.reduce((min, value) => Math.min(min, value), Infinity);
  const high = y.reduce((max, value) => Math.max(max, value), -Infinity);
  const room = Math.max(high - low, Math.abs(high), Math.abs(low));
  return values.map((value) => (value > high + room ? high : value < low - room ? low : value));
}
