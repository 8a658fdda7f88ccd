import type { TokenSequenceObject } from '@trainyard/sdk';

import { SURPRISE_LEGEND, surpriseLevel, type ToneLevel } from '../../tokens/token-tone.ts';

export type OverlayName = 'probability' | 'gap' | 'entropy' | 'ratio' | 'advantage' | 'mask';

export interface Overlay {
  readonly name: OverlayName;
  readonly text: string;
  /** `surprise` has one colour, `signed` two. */
  readonly tone: 'surprise' | 'signed';
  /** Levels of the legend, each with its numbers. */
  readonly legend: readonly (readonly [level: ToneLevel, words: string])[];
  readonly help: string;
}

export const OVERLAYS: readonly Overlay[] = [
  {
    name: 'probability',
    text: 'Probability',
    tone: 'surprise',
    legend: SURPRISE_LEGEND,
    help: 'Probability of the token when it was sampled.',
  },
  {
    name: 'gap',
    text: 'Gap of trainer and sampler',
    tone: 'signed',
    legend: [
      [-4, 'below −0.1'],
      [-2, 'to −0.001'],
      [0, 'within 0.0001'],
      [2, 'from 0.001'],
      [4, 'above 0.1'],
    ],
    help: 'Log-probability in training minus that in sampling.',
  },
  {
    name: 'entropy',
    text: 'Entropy',
    tone: 'surprise',
    legend: [
      [0, 'below 0.1'],
      [1, 'from 0.1'],
      [2, 'from 0.5'],
      [3, 'from 1'],
      [4, '2 and more'],
    ],
    help: 'Nats over the whole vocabulary: how open the choice of the token was in training.',
  },
  {
    name: 'ratio',
    text: 'Ratio and clipping',
    tone: 'signed',
    legend: [
      [-4, 'below 0.5'],
      [-2, 'to 0.9'],
      [0, '0.99 to 1.01'],
      [2, 'from 1.1'],
      [4, 'above 2'],
    ],
    help: 'Probability in training divided by that in sampling; framed tokens are outside the bounds of the loss.',
  },
  {
    name: 'advantage',
    text: 'Advantage',
    tone: 'signed',
    legend: [
      [-4, 'made less likely'],
      [0, 'no change'],
      [4, 'made more likely'],
    ],
    help: 'The loss pushes all tokens of a rollout by its advantage.',
  },
  {
    name: 'mask',
    text: 'Mask and reasons',
    tone: 'signed',
    legend: [
      [3, 'trained'],
      [0, 'context'],
    ],
    help: 'The loss has a term for trained tokens only; each part of the context names its reason.',
  },
];

const GAPS = [1e-4, 1e-3, 1e-2, 1e-1] as const;
const ENTROPIES = [0.1, 0.5, 1, 2] as const;
/** Bounds of ratios above 1; below 1 their inverses. */
const LOG_RATIOS = [1.01, 1.1, 1.5, 2].map(Math.log);

/** Bounds of the importance ratio in the loss. */
export interface RatioBounds {
  readonly low: number;
  readonly high: number;
}

/** Strength and sign of a trained token's colour. */
export function overlayLevel(name: OverlayName, sequence: TokenSequenceObject, index: number): ToneLevel {
  switch (name) {
    case 'probability':
      return surpriseLevel(sequence.sampled_logprobs[index] ?? null);
    case 'gap':
      return signed(gapOf(sequence, index), GAPS);
    case 'entropy':
      return signed(sequence.entropies?.[index] ?? null, ENTROPIES);
    case 'ratio':
      return signed(gapOf(sequence, index), LOG_RATIOS);
    case 'advantage':
      return signed(sequence.advantage, [Number.MIN_VALUE, 0.25, 0.5, 1]);
    case 'mask':
      return 3;
  }
}

/** Number of bounds that a size reaches, with the sign of the value. */
function signed(value: number | null, bounds: readonly number[]): ToneLevel {
  if (value === null) return 0;
  const level = bounds.filter((bound) => Math.abs(value) >= bound).length;
  return (level === 0 ? 0 : Math.sign(value) * level) as ToneLevel;
}

/** Log-probability in training minus that in sampling; null if one is not known. */
export function gapOf(sequence: TokenSequenceObject, index: number): number | null {
  const sampled = sequence.sampled_logprobs[index] ?? null;
  const trained = sequence.trained_logprobs[index] ?? null;
  return sampled === null || trained === null ? null : trained - sampled;
}

/** True if the loss clips the ratio of a token. */
export function isClipped(sequence: TokenSequenceObject, index: number, bounds: RatioBounds | null): boolean {
  const gap = gapOf(sequence, index);
  if (gap === null || bounds === null) return false;
  const ratio = Math.exp(gap);
  return ratio < bounds.low || ratio > bounds.high;
}

/** Bounds of a job's settings; null if the loss has one ratio per sequence, or no bounds. */
export function ratioBounds(config: Readonly<Record<string, unknown>>): RatioBounds | null {
  const { epsilon, epsilon_high: high, importance_sampling_level: level } = config;
  if (level !== 'token' || typeof epsilon !== 'number') return null;
  return { low: 1 - epsilon, high: 1 + (typeof high === 'number' ? high : epsilon) };
}
