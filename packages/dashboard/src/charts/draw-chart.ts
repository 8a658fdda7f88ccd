import uPlot from 'uplot';

import { formatTick, formatValue } from '../components/numbers.ts';
import { columnsOf } from './chart-columns.ts';
import type { ChartLine, GoodRange } from './chart-line.ts';
import { linearRange, logRange, logTicks, placeRange } from './chart-range.ts';
import type { ThemeColors } from './theme-colors.ts';

/** Two clicks within this time are a double click and not a pick, ms. */
const DOUBLE_CLICK_MS = 250;
/** Maximum pointer movement of a click, in pixels. */
const CLICK_SLACK = 4;
/** Width of a digit, in pixels. */
const CHARACTER_WIDTH = 6.5;
const FONT = '11px ui-sans-serif, system-ui, sans-serif';

export interface ChartParts {
  readonly lines: readonly ChartLine[];
  readonly isLog: boolean;
  readonly hasFractions: boolean;
  /** Shaded. */
  readonly good?: GoodRange | undefined;
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
  const { height, colors, callbacks, syncKey, good } = parts;
  const columns = columnsOf(parts);
  const { data, series, bands, floor, hasZeros } = columns;
  // Without a positive value there is nothing to take a logarithm of.
  const isLog = floor !== null;
  const last = data[0].at(-1) ?? 0;
  const lastLabel = parts.hasFractions ? formatValue(last) : String(last);
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
      // The label of the last place is centred on the right edge.
      padding: [8, 8 + (lastLabel.length * CHARACTER_WIDTH) / 2, 0, 0],
      scales: {
        x: { time: false, range: (_chart, min, max) => placeRange([...data[0]], min, max) },
        y: isLog
          ? { distr: 3, range: (_chart, min, max) => logRange(min, max, good) }
          : { range: (_chart, min, max) => linearRange(...withGood(min, max, good)) },
      },
      axes: [
        {
          ...axis,
          size: 26,
          gap: 4,
          values: (_chart, places) =>
            places.map((x) => (parts.hasFractions ? formatValue(x) : Number.isInteger(x) ? `${x}` : '')),
        },
        {
          ...axis,
          ...(isLog
            ? {
                filter: (_chart: uPlot, ticks: number[]) => logTicks(ticks),
                grid: { ...axis.grid, filter: (_chart: uPlot, ticks: number[]) => logTicks(ticks) },
              }
            : {}),
          size: 52,
          gap: 6,
          values: (_chart, values) => values.map((y) => labelOf(y, floor, hasZeros)),
        },
      ],
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 7 },
        ...(syncKey === undefined ? {} : { sync: { key: syncKey } }),
      },
      hooks: {
        drawClear: [(plot) => shadeGood(plot, good, colors.good)],
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

function withGood(min: number, max: number, good: GoodRange | undefined): [number, number] {
  return good === undefined ? [min, max] : [Math.min(min, good.from), Math.max(max, good.to)];
}

/** uPlot asks for labels of every tenth of a decade, and leaves out some by null. */
function labelOf(y: number | null, floor: number | null, hasZeros: boolean): string {
  if (y === null) return '';
  if (floor === null) return formatValue(Math.abs(y) < 1e-12 ? 0 : y);
  return hasZeros && y <= floor * 1.001 ? '0' : formatTick(y);
}

function shadeGood(chart: uPlot, good: GoodRange | undefined, color: string): void {
  const { min, max } = chart.scales['y'] ?? {};
  if (good === undefined || min == null || max == null) return;
  const top = chart.valToPos(Math.min(good.to, max), 'y', true);
  const bottom = chart.valToPos(Math.max(good.from, min), 'y', true);
  const { left, width } = chart.bbox;
  chart.ctx.save();
  chart.ctx.fillStyle = color;
  chart.ctx.fillRect(left, top, width, bottom - top);
  chart.ctx.restore();
}

function placeOf(data: uPlot.AlignedData, index: number | null | undefined): number | null {
  return index === null || index === undefined ? null : (data[0][index] ?? null);
}

function zoomTo(chart: uPlot, callbacks: ChartParts['callbacks']): void {
  const { left, width } = chart.select;
  if (width <= CLICK_SLACK) return;
  const from = chart.posToVal(left, 'x');
  const to = chart.posToVal(left + width, 'x');
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
