import type { ParameterCounts } from '@trainyard/engine';

/** A reinforcement-learning step of 64 rollouts on one model, measured on one machine. */
export interface MeasuredStep {
  /** Size in the model's name, such as `0.6B`. */
  readonly shape: string;
  readonly parameters: ParameterCounts;
  /** Threads of sampler and trainer. */
  readonly cores: number;
  /** Completion tokens per second of 8 prompts × 8 rollouts. */
  readonly sampledPerSecond: number;
  /** Tokens of all 64 conversations per second of the training job. */
  readonly trainedPerSecond: number;
  readonly stepSeconds: number;
  /** Largest memory of all processes. */
  readonly peakBytes: number;
}

export interface MeasuredSteps {
  readonly machine: string;
  /** True while the rows come from a busy machine, for their order of magnitude only. */
  readonly isTrial: boolean;
  readonly rows: readonly MeasuredStep[];
}

export interface PredictedStep extends Pick<
  MeasuredStep,
  'cores' | 'sampledPerSecond' | 'trainedPerSecond' | 'stepSeconds'
> {
  readonly measured: Pick<MeasuredSteps, 'machine' | 'isTrial'>;
  /** True if the model is smaller or larger than all measured ones, or the machine has more cores. */
  readonly isExtrapolated: boolean;
}

/**
 * Predicts a step from measured ones. Between two sizes, times follow a power of the multiplied weights; beyond
 * them they are proportional. Speed on other numbers of cores follows the two largest
 * measured ones, and is proportional below them.
 *
 * @returns null without measurements
 */
export function predictStep(
  { rows, machine, isTrial }: MeasuredSteps,
  { multiplied }: ParameterCounts,
  cores: number,
): PredictedStep | null {
  const measuredCores = [...new Set(rows.map((row) => row.cores))].toSorted((a, b) => a - b);
  const most = measuredCores.at(-1);
  if (most === undefined) return null;
  // The shapes that all numbers of cores have.
  const nearest = measuredCores.findLast((count) => count <= cores) ?? measuredCores[0]!;
  const at = (count: number): readonly MeasuredStep[] => rows.filter((row) => row.cores === count);
  const speedup = (rate: (row: MeasuredStep) => number): number => {
    if (cores <= nearest) return cores / nearest;
    const before = measuredCores[measuredCores.indexOf(nearest) - 1];
    const next = measuredCores[measuredCores.indexOf(nearest) + 1];
    const [from, to] = next === undefined ? [before, nearest] : [nearest, next];
    if (from === undefined || to === undefined) return 1;
    const shapes = at(from).flatMap((row) => {
      const other = at(to).find(({ shape }) => shape === row.shape);
      return other === undefined ? [] : [Math.log(rate(other) / rate(row)) / Math.log(to / from)];
    });
    if (shapes.length === 0) return 1;
    const power = shapes.reduce((sum, one) => sum + one, 0) / shapes.length;
    return (cores / nearest) ** Math.min(1, Math.max(0, power));
  };
  const bySize = at(nearest).toSorted((a, b) => a.parameters.multiplied - b.parameters.multiplied);
  const rateOf = (rate: (row: MeasuredStep) => number): number =>
    speedup(rate) /
    powerBetween(
      bySize.map((row) => [row.parameters.multiplied, 1 / rate(row)]),
      multiplied,
    );
  const [least, largest] = [bySize[0]!, bySize.at(-1)!];
  return {
    measured: { machine, isTrial },
    cores,
    sampledPerSecond: rateOf((row) => row.sampledPerSecond),
    trainedPerSecond: rateOf((row) => row.trainedPerSecond),
    stepSeconds: 1 / rateOf((row) => 1 / row.stepSeconds),
    isExtrapolated:
      multiplied < 0.9 * least.parameters.multiplied ||
      multiplied > 1.1 * largest.parameters.multiplied ||
      cores > most,
  };
}

type Point = readonly [x: number, y: number];

/** @param points at least one, by x; beyond them y is proportional to x */
function powerBetween(points: readonly Point[], x: number): number {
  const [from, to] = around(points, x);
  if (from[0] === to[0]) return (from[1] * x) / from[0];
  return from[1] * (x / from[0]) ** (Math.log(to[1] / from[1]) / Math.log(to[0] / from[0]));
}

/** The two points around x; the same twice beyond all of them. */
function around(points: readonly Point[], x: number): readonly [Point, Point] {
  const above = points.findIndex(([one]) => one >= x);
  if (above < 0) return [points.at(-1)!, points.at(-1)!];
  return [points[Math.max(0, above - 1)]!, points[above]!];
}
