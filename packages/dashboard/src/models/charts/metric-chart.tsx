import { keepPreviousData, useQueries } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { ModelDetailsObject, SeriesListObject, SeriesObject } from '@trainyard/sdk';
import { useLocation } from 'wouter';

import { seriesQuery } from '../../api/models.ts';
import { ChartCard } from '../../charts/chart-card.tsx';
import type { ChartLine } from '../../charts/chart-line.ts';
import { lineOf, lineWithDeviation, mappedLine } from '../../charts/series-lines.ts';
import { useInView } from '../../charts/use-in-view.ts';
import { hoursOf, stepAt, tokensOf } from './axis-places.ts';
import type { ChartSpec } from './chart-spec.ts';
import { rolloutsHref } from './rollouts-href.ts';
import { type ChartAxis, type ChartView, CHART_AXES } from './use-chart-view.ts';

/** Trained tokens of each gradient step, which place the points on the axis of tokens. */
const TOKENS = 'train/num_trainable_tokens';
const LARGE_HEIGHT = 420;

/** One chart of a model, with one line per compared model. Loads its numbers when it comes into view. */
export function MetricChart({
  models,
  spec,
  view,
  onView,
}: {
  models: readonly ModelDetailsObject[];
  spec: ChartSpec;
  view: ChartView;
  onView: (change: Partial<ChartView>) => void;
}) {
  const [element, isInView] = useInView<HTMLDivElement>();
  const [, navigate] = useLocation();
  const { axis, from, to, large } = view;
  const isLarge = large === spec.title;
  const names = [...spec.metrics.map(({ name }) => name), ...(spec.deviation ? [spec.deviation] : [])];
  const read = {
    names: axis === 'tokens' && !names.includes(TOKENS) ? [...names, TOKENS] : names,
    axis: axis === 'gradient_step' ? axis : ('step' as const),
    // Sums of tokens start at the first step.
    ...(axis === 'tokens' ? { from: null, to } : { from, to }),
  };
  const answers = useQueries({
    queries: models.map(({ id }) => ({
      ...seriesQuery(id, read.names, read),
      enabled: isInView,
      placeholderData: keepPreviousData,
    })),
    combine: (results) => results.map(({ data }) => data),
  });
  const drawn = useMemo(
    () => linesOf({ spec, models, answers, view: { axis, from } }),
    [spec, models, answers, axis, from],
  );
  const lines = useMemo(() => drawn.map(({ line }) => line), [drawn]);
  const [first] = models;
  const toStep = (place: number) => {
    const [main] = drawn;
    return main === undefined ? null : stepAt(main.line.x, main.steps, place);
  };
  const isOfSteps = axis === 'step' || axis === 'gradient_step';
  function zoom(range: { from: number; to: number } | null) {
    const [start, end] =
      range === null
        ? [null, null]
        : isOfSteps
          ? [Math.ceil(range.from), Math.floor(range.to)]
          : [toStep(range.from), toStep(range.to)];
    if (start === null || end === null) onView({ from: null, to: null });
    else if (end > start) onView({ from: start, to: end });
  }
  function pick(place: number) {
    const step = axis === 'step' ? place : toStep(place);
    if (step !== null && first !== undefined) navigate(rolloutsHref(first.id, spec.metrics[0]?.name ?? '', step));
  }
  return (
    <div ref={element} data-large={isLarge ? '' : undefined}>
      <ChartCard
        title={spec.title}
        help={spec.help}
        xName={X_NAMES[axis]}
        lines={lines}
        hasFractions={!isOfSteps}
        isLog={view.isLog || spec.isLog === true}
        good={spec.good}
        smoothing={view.smoothing}
        syncKey="model"
        onZoom={zoom}
        onLarge={() => onView({ large: isLarge ? null : spec.title })}
        onHide={() => onView({ hidden: [...view.hidden, spec.title] })}
        {...(isLarge ? { height: LARGE_HEIGHT } : {})}
        {...(axis === 'gradient_step' ? {} : { onPick: pick })}
      />
    </div>
  );
}

const X_NAMES: Readonly<Record<ChartAxis, string>> = {
  step: 'step',
  gradient_step: 'gradient step',
  tokens: CHART_AXES.tokens,
  time: CHART_AXES.time,
};
const COLORS: readonly ChartLine['color'][] = [1, 2, 3, 4];

interface DrawnLine {
  readonly line: ChartLine;
  /** Step of each place. */
  readonly steps: readonly number[];
}

function linesOf({
  spec: { metrics, deviation, isFromOne = false },
  models,
  answers,
  view: { axis, from },
}: {
  spec: ChartSpec;
  models: readonly ModelDetailsObject[];
  answers: readonly (SeriesListObject | undefined)[];
  view: Pick<ChartView, 'axis' | 'from'>;
}): DrawnLine[] {
  const isCompared = models.length > 1;
  return models.flatMap((model, modelIndex) => {
    const series = answers[modelIndex]?.data ?? [];
    const spread = series.find(({ name }) => name === deviation);
    const tokens = series.find(({ name }) => name === TOKENS);
    return (isCompared ? metrics.slice(0, 1) : metrics).flatMap(({ name, label }, index) => {
      const own = series.find((one) => one.name === name);
      if (own === undefined || own.last.length + own.discarded.at.length === 0) return [];
      const color = COLORS[isCompared ? modelIndex : index]!;
      const text = isCompared ? model.name : label;
      const plain = index === 0 && !isCompared ? lineWithDeviation(own, spread, color, text) : lineOf(own, color, text);
      const line = isFromOne ? mappedLine(plain, (value) => 1 - value) : plain;
      const placed = { line: placedLine(line, own, { axis, model, tokens }), steps: own.last };
      return [axis === 'tokens' && from !== null ? cutBefore(placed, from) : placed];
    });
  });
}

function placedLine(
  line: ChartLine,
  series: SeriesObject,
  { axis, model, tokens }: { axis: ChartAxis; model: ModelDetailsObject; tokens: SeriesObject | undefined },
): ChartLine {
  if (axis !== 'time' && axis !== 'tokens') return line;
  const places = axis === 'time' ? hoursOf(series, model.created_at) : tokensOf(series, tokens);
  const { discarded } = line;
  return {
    ...line,
    x: places.points,
    ...(discarded === undefined ? {} : { discarded: { ...discarded, x: places.discarded } }),
  };
}

function cutBefore({ line, steps }: DrawnLine, from: number): DrawnLine {
  const start = steps.findIndex((step) => step >= from);
  const at = start < 0 ? steps.length : start;
  const { band } = line;
  return {
    steps: steps.slice(at),
    line: {
      ...line,
      x: line.x.slice(at),
      y: line.y.slice(at),
      ...(band === undefined ? {} : { band: { low: band.low.slice(at), high: band.high.slice(at) } }),
    },
  };
}
