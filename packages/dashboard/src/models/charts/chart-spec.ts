import type { GoodRange } from '../../charts/chart-line.ts';

/** A chart of a model's page: its metrics and how to read it. */
export interface ChartSpec {
  readonly title: string;
  /** In the order of their colours, at most four; missing metrics are left out. */
  readonly metrics: readonly ChartMetric[];
  /** Metric of the spread around the first one. */
  readonly deviation?: string;
  readonly help?: string;
  /** True for a logarithmic axis, whatever the page has chosen. */
  readonly isLog?: boolean;
  /** Good values, shaded. */
  readonly good?: GoodRange;
  /** True if the distance from 1 is drawn. */
  readonly isFromOne?: boolean;
}

interface ChartMetric {
  readonly name: string;
  readonly label: string;
}
