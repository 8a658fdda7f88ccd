import uPlot from 'uplot';

import { formatValue } from '../components/numbers.ts';
import type { ChartLine } from './chart-line.ts';
import { smooth } from './smooth.ts';
import type { ThemeColors } from './theme-colors.ts';

/** Two clicks within this time are a double click and not a pick, ms. */
const DOUBLE_CLICK_MS = 250;
/** Maximum pointer movement of a click, in pixels. */
const CLICK_SLACK = 4;
const FONT = '11px ui-sans-serif, system-ui, sans-serif';

export interface ChartParts {
  readonly lines: readonly ChartLine[];
  readonly isLog: boolean;
  readonly smoothing: number;
  readonly height: number;
  readonly colors: ThemeColors;
  readonly callbacks: {
    readonly current: {
      readonly onHover?: ((x: number | null) => void) | undefined;
      readonly onPick?: ((x: number) => void) | undefined;
      readonly onZoom?: ((range: { from: number; to: number } | null) => void) | undefined;
    };
  };
  readonly syncKey?: string | undefined;
}

/** Draws lines into an element. @returns the chart, which the caller destroys */
export function drawChart(element: HTMLElement, parts: ChartParts): uPlot {
  const { data, series, bands } = columnsOf(parts);
  const { height, colors, isLog, callbacks, syncKey } = parts;
  const axis: uPlot.Axis = {
    stroke: colors.soft,
    font: FONT,
    grid: { stroke: colors.line, width: 1 },
    ticks: { show: false },
  };
  const chart = new uPlot(
    {
      width: Math.max(120, element.clientWidth),
      height,
      series,
      bands,
      legend: { show: false },
      padding: [8, 8, 0, 0],
      scales: { x: { time: false }, y: isLog ? { distr: 3 } : { range: rangeOf } },
      axes: [
        {
          ...axis,
          size: 26,
          gap: 4,
          values: (_chart, places) => places.map((x) => (Number.isInteger(x) ? `${x}` : '')),
        },
        {
          ...axis,
          size: 52,
          gap: 6,
          values: (_chart, values) => values.map((y) => (y === null ? '' : formatValue(y))),
        },
      ],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 7 },
        ...(syncKey === undefined ? {} : { sync: { key: syncKey } }),
      },
      hooks: {
        setCursor: [({ cursor }) => callbacks.current.onHover?.(placeOf(data, cursor.idx))],
        setSelect: [(plot) => zoomTo(plot, callbacks)],
      },
    },
    data,
    element,
  );
  listen(chart, data, callbacks);
  return chart;
}

/** Adds a margin; a constant line is centred in a range of its own magnitude. */
function rangeOf(_chart: uPlot, min: number, max: number): uPlot.Range.MinMax {
  if (min === max) return min === 0 ? [-0.5, 1] : [min - Math.abs(min) / 2, max + Math.abs(max) / 2];
  const margin = (max - min) * 0.06;
  return [min - margin, max + margin];
}

function placeOf(data: uPlot.AlignedData, index: number | null | undefined): number | null {
  return index === null || index === undefined ? null : (data[0][index] ?? null);
}

function zoomTo(chart: uPlot, callbacks: ChartParts['callbacks']): void {
  const { left, width } = chart.select;
  if (width <= CLICK_SLACK) return;
  const from = Math.ceil(chart.posToVal(left, 'x'));
  const to = Math.floor(chart.posToVal(left + width, 'x'));
  chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  if (to > from) callbacks.current.onZoom?.({ from, to });
}

function listen(chart: uPlot, data: uPlot.AlignedData, callbacks: ChartParts['callbacks']): void {
  let downAt = 0;
  let pick: ReturnType<typeof setTimeout> | undefined;
  chart.over.addEventListener('mousedown', ({ clientX }) => (downAt = clientX));
  chart.over.addEventListener('click', ({ clientX }) => {
    const place = placeOf(data, chart.cursor.idx);
    if (place === null || Math.abs(clientX - downAt) > CLICK_SLACK) return;
    clearTimeout(pick);
    // A pick navigates away, so it waits for a possible double click if that has a meaning.
    const waitMs = callbacks.current.onZoom === undefined ? 0 : DOUBLE_CLICK_MS;
    pick = setTimeout(() => callbacks.current.onPick?.(place), waitMs);
  });
  chart.over.addEventListener('dblclick', () => {
    clearTimeout(pick);
    callbacks.current.onZoom?.(null);
  });
}

/** Merges the places of all lines into one axis; gaps are bridged. */
function columnsOf({ lines, isLog, smoothing, colors }: ChartParts): {
  data: uPlot.AlignedData;
  series: uPlot.Series[];
  bands: uPlot.Band[];
} {
  const places = [...new Set(lines.flatMap(({ x }) => x))].toSorted((first, second) => first - second);
  const indexOf = new Map(places.map((place, index) => [place, index]));
  const data: (number | null)[][] = [places];
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  for (const line of lines) {
    const stroke = colors.series[line.color - 1]!;
    const add = (values: readonly number[], options: uPlot.Series) => {
      const column: (number | null)[] = places.map(() => null);
      // The logarithm of a value that is not positive is undefined.
      for (const [index, value] of values.entries())
        column[indexOf.get(line.x[index]!)!] = isLog && value <= 0 ? null : value;
      data.push(column);
      series.push({ label: line.name, spanGaps: true, points: { show: false }, ...options });
      return series.length - 1;
    };
    if (line.band !== undefined) {
      const high = add(line.band.high, { stroke: 'transparent', width: 0 });
      const low = add(line.band.low, { stroke: 'transparent', width: 0 });
      bands.push({ series: [high, low], fill: `${stroke}24` });
    }
    const isSmoothed = smoothing > 0;
    if (isSmoothed) add(line.y, { stroke: `${stroke}55`, width: 1 });
    const hasFew = line.x.length <= 40;
    add(isSmoothed ? smooth(line.y, smoothing) : line.y, {
      stroke,
      width: 1.75,
      points: { show: hasFew && !isSmoothed, size: 5, fill: stroke },
    });
  }
  return { data: data as uPlot.AlignedData, series, bands };
}
