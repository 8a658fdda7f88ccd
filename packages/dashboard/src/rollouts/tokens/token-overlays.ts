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

/** Importance ratios of a loss: their bounds, and the tokens that share one. */
export interface RatioRule {
  readonly low: number;
  readonly high: number;
  /** `token`: each its own; `sequence`: all trained tokens of a history their geometric mean; the others: a mean of both. */
  readonly level: RatioLevel;
}

const RATIO_LEVELS = ['token', 'sequence', 'average', 'geometric_average'] as const;
export type RatioLevel = (typeof RATIO_LEVELS)[number];

/** Strength and sign of a trained token's colour. @param ratio of the token in the loss */
export function overlayLevel(
  name: OverlayName,
  sequence: TokenSequenceObject,
  index: number,
  ratio: number | null = null,
): ToneLevel {
  switch (name) {
    case 'probability':
      return surpriseLevel(sequence.sampled_logprobs[index] ?? null);
    case 'gap':
      return signed(gapOf(sequence, index), GAPS);
    case 'entropy':
      return signed(sequence.entropies?.[index] ?? null, ENTROPIES);
    case 'ratio':
      return signed(ratio === null ? null : Math.log(ratio), LOG_RATIOS);
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

/**
 * Ratio of each token in the loss, at the level of its job; null for context, and if nothing was recorded. As in the
 * trainer, an unknown log-probability of sampling counts as no change.
 */
export function lossRatios(sequence: TokenSequenceObject, level: RatioLevel): (number | null)[] {
  const gaps = sequence.is_trained.map((isTrained, index) => (isTrained ? gapOf(sequence, index) : null));
  if (gaps.every((gap) => gap === null)) return gaps;
  const numTrained = sequence.is_trained.filter(Boolean).length;
  const pooled = gaps.reduce<number>((sum, gap) => sum + (gap ?? 0), 0) / numTrained;
  return gaps.map((known, index) => {
    if (sequence.is_trained[index] !== true) return null;
    const gap = known ?? 0;
    switch (level) {
      case 'token':
        return Math.exp(gap);
      case 'sequence':
        return Math.exp(pooled);
      case 'average':
        return (Math.exp(gap) + Math.exp(pooled)) / 2;
      default:
        return Math.exp((gap + pooled) / 2);
    }
  });
}

/** True if the loss clips a ratio. */
export function isClipped(ratio: number | null, rule: RatioRule | null): boolean {
  return ratio !== null && rule !== null && (ratio < rule.low || ratio > rule.high);
}

/** Rule of a job's settings; null if its loss has no bounds. */
export function ratioRule(config: Readonly<Record<string, unknown>>): RatioRule | null {
  const { epsilon, epsilon_high: high, importance_sampling_level: name } = config;
  const level = RATIO_LEVELS.find((one) => one === name);
  if (level === undefined || typeof epsilon !== 'number') return null;
  return { low: 1 - epsilon, high: 1 + (typeof high === 'number' ? high : epsilon), level };
}
