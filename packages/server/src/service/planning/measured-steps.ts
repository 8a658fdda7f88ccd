/** Written by `npm run bench -- models --write`. */
import type { MeasuredSteps } from './predict-step.ts';

export const MEASURED_STEPS: MeasuredSteps = {
  machine: '2 cores, AMD EPYC',
  isTrial: false,
  rows: [
    {
      shape: '135M',
      parameters: {
        total: 134515008,
        multiplied: 134515008,
      },
      cores: 1,
      sampledPerSecond: 213.97263422811255,
      trainedPerSecond: 640.6920622456621,
      stepSeconds: 70.986573526,
      peakBytes: 3660138496,
    },
    {
      shape: '135M',
      parameters: {
        total: 134515008,
        multiplied: 134515008,
      },
      cores: 2,
      sampledPerSecond: 290.92036221355073,
      trainedPerSecond: 945.3984995810956,
      stepSeconds: 49.21384492399999,
      peakBytes: 3830630400,
    },
    {
      shape: '270M, real',
      parameters: {
        total: 268098176,
        multiplied: 268098176,
      },
      cores: 1,
      sampledPerSecond: 127.87408386416699,
      trainedPerSecond: 410.76765815658905,
      stepSeconds: 109.62281832199999,
      peakBytes: 5617425408,
    },
    {
      shape: '270M, real',
      parameters: {
        total: 268098176,
        multiplied: 268098176,
      },
      cores: 2,
      sampledPerSecond: 171.2195853960418,
      trainedPerSecond: 570.8720664524159,
      stepSeconds: 79.75286918500002,
      peakBytes: 5965396992,
    },
  ],
};
