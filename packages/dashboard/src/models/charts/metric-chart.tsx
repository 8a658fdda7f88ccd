import { keepPreviousData, useQueries } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { ModelDetailsObject, SeriesListObject } from '@trainyard/sdk';
import { useLocation } from 'wouter';

import { seriesQuery } from '../../api/models.ts';
import { ChartCard } from '../../charts/chart-card.tsx';
import type { ChartLine } from '../../charts/chart-line.ts';
import { lineOf, lineWithDeviation, mappedLine } from '../../charts/series-lines.ts';
import { useInView } from '../../charts/use-in-view.ts';
import type { ChartSpec } from './chart-spec.ts';
import { rolloutsHref } from './rollouts-href.ts';
import type { ChartView } from './use-chart-view.ts';

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
  const { axis, from, to } = view;
  const names = [...spec.metrics.map(({ name }) => name), ...(spec.deviation ? [spec.deviation] : [])];
  const answers = useQueries({
    queries: models.map(({ id }) => ({
      ...seriesQuery(id, names, { axis, from, to }),
      enabled: isInView,
      placeholderData: keepPreviousData,
    })),
    combine: (results) => results.map(({ data }) => data),
  });
  const lines = useMemo(() => linesOf(spec, models, answers), [spec, models, answers]);
  const [first] = models;
  return (
    <div ref={element}>
      <ChartCard
        title={spec.title}
        help={spec.help}
        xName={axis === 'step' ? 'step' : 'gradient step'}
        lines={lines}
        isLog={view.isLog || spec.isLog === true}
        good={spec.good}
        smoothing={view.smoothing}
        syncKey="model"
        onZoom={(range) => onView(range ?? { from: null, to: null })}
        {...(axis === 'step' && first !== undefined
          ? { onPick: (step: number) => navigate(rolloutsHref(first.id, spec.metrics[0]?.name ?? '', step)) }
          : {})}
      />
    </div>
  );
}

const COLORS: readonly ChartLine['color'][] = [1, 2, 3, 4];

function linesOf(
  { metrics, deviation, isFromOne = false }: ChartSpec,
  models: readonly ModelDetailsObject[],
  answers: readonly (SeriesListObject | undefined)[],
): ChartLine[] {
  const isCompared = models.length > 1;
  return models.flatMap((model, modelIndex) => {
    const series = answers[modelIndex]?.data ?? [];
    const spread = series.find(({ name }) => name === deviation);
    return (isCompared ? metrics.slice(0, 1) : metrics).flatMap(({ name, label, isDashed }, index) => {
      const own = series.find((one) => one.name === name);
      if (own === undefined || own.last.length === 0) return [];
      const color = COLORS[isCompared ? modelIndex : index]!;
      const text = isCompared ? model.name : label;
      const line = {
        ...(index === 0 && !isCompared ? lineWithDeviation(own, spread, color, text) : lineOf(own, color, text)),
        isDashed,
      };
      return [isFromOne ? mappedLine(line, (value) => 1 - value) : line];
    });
  });
}
