import type { PredictedStep } from '@trainyard/server';

/** One line about a step of 64 rollouts of 448 tokens. */
export function stepText(step: PredictedStep): string {
  const { cores, sampledPerSecond, trainedPerSecond, stepSeconds, isExtrapolated, measured } = step;
  const source = [
    isExtrapolated ? 'extrapolated from' : 'from',
    measured.isTrial ? 'a trial on a busy machine' : 'measurements',
    `(${measured.machine}), see docs/benchmarks.md`,
  ];
  return [
    `a step of 64 rollouts: about ${duration(stepSeconds)} on ${cores} core${cores === 1 ? '' : 's'}`,
    `${rounded(sampledPerSecond)} tokens/s sampled, ${rounded(trainedPerSecond)} trained`,
    source.join(' '),
  ].join('; ');
}

function duration(seconds: number): string {
  if (seconds < 90) return `${rounded(seconds)} s`;
  return seconds < 5400 ? `${rounded(seconds / 60)} min` : `${rounded(seconds / 3600)} h`;
}

/** Two digits: predictions are no better. */
const rounded = (value: number): number => Number(value.toPrecision(2));
