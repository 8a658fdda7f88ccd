import 'uplot/dist/uPlot.min.css';
import './line-chart.css';
import { type KeyboardEvent, useEffect, useRef } from 'react';
import type uPlot from 'uplot';

import type { ChartLine, GoodRange } from './chart-line.ts';
import { drawChart } from './draw-chart.ts';
import { useThemeColors } from './theme-colors.ts';

export interface LineChartProps {
  /** Accessible name of the chart. */
  readonly label: string;
  readonly lines: readonly ChartLine[];
  readonly height?: number;
  /** True if places on the x axis are not steps: their labels may be fractions. */
  readonly hasFractions?: boolean;
  readonly isLog?: boolean;
  /** Good values, shaded. */
  readonly good?: GoodRange | undefined;
  /** 0 to below 1; above 0 the raw values are drawn faintly in the background. */
  readonly smoothing?: number;
  /** Called with the place of the pointer or of the arrow keys, or null for none. */
  readonly onHover?: (x: number | null) => void;
  /** Called with the place that was clicked or chosen with Enter. */
  readonly onPick?: (x: number) => void;
  /** Called with the range that was dragged over, which may start and end between places; null for a double click. */
  readonly onZoom?: (range: { from: number; to: number } | null) => void;
  /** Charts with the same key synchronise their cursors. */
  readonly syncKey?: string;
}

/** Lines over steps. The table of the card has the same numbers. */
export function LineChart({ label, height = 180, ...chart }: LineChartProps) {
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const colors = useThemeColors();
  const { lines, isLog = false, smoothing = 0, good, hasFractions = false, onHover, onPick, onZoom, syncKey } = chart;
  // A new callback needs no new chart.
  const callbacks = useRef({ onHover, onPick, onZoom });
  callbacks.current = { onHover, onPick, onZoom };

  useEffect(() => {
    const element = container.current!;
    plot.current = drawChart(element, {
      lines,
      isLog,
      hasFractions,
      good,
      smoothing,
      height,
      colors,
      callbacks,
      syncKey,
    });
    const observer = new ResizeObserver(() =>
      plot.current?.setSize({ width: Math.max(120, element.clientWidth), height }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [lines, isLog, hasFractions, good, smoothing, height, colors, syncKey]);

  function onKeyDown(event: KeyboardEvent) {
    const chart = plot.current;
    if (chart === null) return;
    const places = chart.data[0];
    const at = chart.cursor.idx ?? null;
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move !== undefined) {
      event.preventDefault();
      const next = Math.min(places.length - 1, Math.max(0, at === null ? places.length - 1 : at + move));
      chart.setCursor({ left: chart.valToPos(places[next] ?? 0, 'x'), top: 0 });
    }
    if (event.key === 'Enter' && at !== null) callbacks.current.onPick?.(places[at] ?? 0);
  }

  return (
    <div
      ref={container}
      className="line-chart"
      role="img"
      aria-label={label}
      tabIndex={0}
      data-pickable={onPick === undefined ? undefined : ''}
      style={{ minHeight: height }}
      onKeyDown={onKeyDown}
    />
  );
}
