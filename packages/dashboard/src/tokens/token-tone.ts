import { formatValue } from '../components/numbers.ts';

/** Strength of a colour, 0 (none) to 4; the sign selects one of two colours. */
export type ToneLevel = -4 | -3 | -2 | -1 | 0 | 1 | 2 | 3 | 4;

/** Probabilities below which a token gets the next stronger colour. */
const SURPRISES = [0.8, 0.4, 0.1, 0.01] as const;

/** The levels of surprise in words. */
export const SURPRISE_LEGEND: readonly (readonly [level: ToneLevel, words: string])[] = [
  [0, '80 % and more'],
  [1, 'from 40 %'],
  [2, 'from 10 %'],
  [3, 'from 1 %'],
  [4, 'below 1 %'],
];

/** Level of surprise: 0 for a probability of 0.8 and more, 4 below 0.01. */
export function surpriseLevel(logprob: number | null): ToneLevel {
  if (logprob === null) return 0;
  const probability = Math.exp(logprob);
  return SURPRISES.filter((limit) => probability < limit).length as ToneLevel;
}

/** `37 %`, `0.2 %`, `3e-7` */
export function formatProbability(logprob: number): string {
  const percent = Math.exp(logprob) * 100;
  if (percent >= 10) return `${percent.toFixed(0)} %`;
  if (percent >= 0.01) return `${Number(percent.toPrecision(2))} %`;
  return percent === 0 ? '0 %' : Math.exp(logprob).toExponential(0);
}

/** `37 % (-0.994)` */
export function probabilityOf(logprob: number | null): string {
  return logprob === null ? 'not known' : `${formatProbability(logprob)} (${formatValue(logprob)})`;
}

/** A token with visible signs for blanks and line ends. */
export function visibleToken(text: string): string {
  if (text === '') return '∅';
  return text.replaceAll('\n', '↵').replaceAll('\t', '⇥').replaceAll(' ', '␣');
}
