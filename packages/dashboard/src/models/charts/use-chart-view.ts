import { useMemo } from 'react';
import { useSearchParams } from 'wouter';

/** Options of a model's charts, all of them in the address. */
export interface ChartView {
  readonly smoothing: number;
  readonly isLog: boolean;
  readonly axis: 'step' | 'gradient_step';
  readonly from: number | null;
  readonly to: number | null;
  /** Other models to compare with, at most three. */
  readonly withModels: readonly string[];
}

export const MAX_OTHER_MODELS = 3;

/** @returns the view, and a function that changes parts of it */
export function useChartView(): readonly [ChartView, (change: Partial<ChartView>) => void] {
  const [parameters, setParameters] = useSearchParams();
  const view = useMemo(() => readView(parameters), [parameters]);
  return [view, (change) => setParameters(toParameters({ ...view, ...change }), { replace: true })];
}

function readView(parameters: URLSearchParams): ChartView {
  const smoothing = Number(parameters.get('smooth') ?? 0);
  return {
    smoothing: smoothing >= 0 && smoothing <= 0.99 ? smoothing : 0,
    isLog: parameters.get('log') === '1',
    axis: parameters.get('axis') === 'gradient_step' ? 'gradient_step' : 'step',
    from: placeOf(parameters.get('from')),
    to: placeOf(parameters.get('to')),
    withModels: parameters.getAll('with').slice(0, MAX_OTHER_MODELS),
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
  return parameters;
}

function placeOf(text: string | null): number | null {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}
