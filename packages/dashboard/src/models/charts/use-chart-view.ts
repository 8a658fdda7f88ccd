import { useMemo } from 'react';
import { useSearchParams } from 'wouter';

export const CHART_AXES = {
  step: 'steps',
  gradient_step: 'gradient steps',
  tokens: 'trained tokens',
  time: 'hours',
} as const;
export type ChartAxis = keyof typeof CHART_AXES;

/** Options of a model's charts, all of them in the address. */
export interface ChartView {
  readonly smoothing: number;
  readonly isLog: boolean;
  readonly axis: ChartAxis;
  readonly from: number | null;
  readonly to: number | null;
  /** Other models to compare with, at most three. */
  readonly withModels: readonly string[];
  /** Only charts with this in their title or metrics; a pattern between slashes. */
  readonly search: string;
  /** Titles of hidden charts. */
  readonly hidden: readonly string[];
  /** Title of the enlarged chart; null for none. */
  readonly large: string | null;
}

export const MAX_OTHER_MODELS = 3;

/** @returns the view, and a function that changes parts of it */
export function useChartView(): readonly [ChartView, (change: Partial<ChartView>) => void] {
  const [parameters, setParameters] = useSearchParams();
  const view = useMemo(() => readView(parameters), [parameters]);
  const change = (part: Partial<ChartView>) => {
    const next = toParameters({ ...view, ...part });
    // Charts with one cursor report the same zoom, and only the first is an entry of the history.
    if (String(next) !== location.search.replace(/^\?/, '')) setParameters(next, { replace: !isZoom(part) });
  };
  return [view, change];
}

/** A zoom is undone by Back. */
function isZoom(change: Partial<ChartView>): boolean {
  return 'from' in change && 'to' in change;
}

function readView(parameters: URLSearchParams): ChartView {
  const smoothing = Number(parameters.get('smooth') ?? 0);
  return {
    smoothing: smoothing >= 0 && smoothing <= 0.99 ? smoothing : 0,
    isLog: parameters.get('log') === '1',
    axis: axisOf(parameters.get('axis')),
    from: placeOf(parameters.get('from')),
    to: placeOf(parameters.get('to')),
    withModels: parameters.getAll('with').slice(0, MAX_OTHER_MODELS),
    search: parameters.get('q') ?? '',
    hidden: parameters.getAll('hide'),
    large: parameters.get('large'),
  };
}

function toParameters(view: ChartView): URLSearchParams {
  const parameters = new URLSearchParams();
  if (view.smoothing > 0) parameters.set('smooth', String(view.smoothing));
  if (view.isLog) parameters.set('log', '1');
  if (view.axis !== 'step') parameters.set('axis', view.axis);
  if (view.from !== null) parameters.set('from', String(view.from));
  if (view.to !== null) parameters.set('to', String(view.to));
  for (const id of view.withModels) parameters.append('with', id);
  if (view.search !== '') parameters.set('q', view.search);
  for (const title of view.hidden) parameters.append('hide', title);
  if (view.large !== null) parameters.set('large', view.large);
  return parameters;
}

function placeOf(text: string | null): number | null {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function axisOf(name: string | null): ChartAxis {
  return name !== null && Object.hasOwn(CHART_AXES, name) ? (name as ChartAxis) : 'step';
}
