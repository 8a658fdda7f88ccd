import type { JobWarning } from './job-warning.ts';
import type { LearnerModel } from '../learner/learner-session.ts';

/** Rates within this factor of the rule's are nobody's mistake. */
const FAR = 10;

/**
 * The learning rate that suits a LoRA adapter of this model: 5e-4 · (2000 / hidden size)^e, where e is 0.781 for Llama models and 0.0775 for
 * Qwen models. It does not depend on the rank.
 *
 * @see Schulman and others, LoRA Without Regret (2025), and the recipes for Tinker, which fitted it over 0.6B to 70B parameters
 */
export function suitableLearningRate({ name, hiddenSize }: Pick<LearnerModel, 'name' | 'hiddenSize'>): number {
  const exponent = name.startsWith('qwen') ? 0.0775 : 0.781;
  return 5e-4 * (2000 / hiddenSize) ** exponent;
}

/** @param rates of the job's gradient steps; those that are 0 are meant to change nothing */
export function learningRateWarnings(
  rates: readonly number[],
  architecture: Pick<LearnerModel, 'name' | 'hiddenSize'>,
): JobWarning[] {
  const highest = rates.reduce((max, rate) => Math.max(max, rate), 0);
  if (highest === 0) return [];
  const suitable = suitableLearningRate(architecture);
  const factor = Math.max(suitable / highest, highest / suitable);
  if (factor < FAR) return [];
  const isLow = highest < suitable;
  return [
    {
      code: isLow ? 'learning_rate_low' : 'learning_rate_high',
      message:
        `\`learning_rate\` is ${rounded(highest)}, ${factor.toFixed(0)} times ${isLow ? 'below' : 'above'} ` +
        `what suits a hidden size of ${architecture.hiddenSize}`,
      value: highest,
      suggestion: `set \`learning_rate\` to about ${rounded(suitable)}`,
    },
  ];
}

const rounded = (rate: number): string => rate.toExponential(1);
