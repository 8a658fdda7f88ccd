import { DEFAULT_LORA_CONFIG, isUniform, type LoraConfig, shapesOf } from '@trainyard/transformer';
import type { JobWarning } from './job-warning.ts';
import type { LearnerModel } from '../learner/learner-session.ts';

/** Plausible factor around the rule's rate. */
const FAR = 10;

/** Weight decay multiplies by the rate: an adapter of a tiny alpha must not be decayed away. */
const HIGHEST = 0.1;
type RateShape = Pick<LoraConfig, 'alpha'> & Partial<LoraConfig>;

/** Alpha at the default rank of 8. */
const DEFAULT_ALPHA = 16;

/**
 * Rows of Gemma 3 270M have a norm of 1, those of SmolLM2-135M 4 to 8: the same adapter changes Gemma that much more.
 * At 1.2e-3, the rate of a Llama model of its size, rewards fell to 0 (docs/lab/experiments.md).
 */
const GEMMA_RATE = 2e-4;

/**
 * Suitable learning rate for a LoRA adapter: 5e-4 · (2000 / hidden size)^e · 16 / alpha, where e is 0.781 for
 * Llama models and 0.0775 for Qwen models. A step of Adam changes an adapter's product by about alpha · rate at
 * any rank: if alpha is twice the rank, the rate is inversely proportional to the rank. With other scales, the
 * largest product of scale and rank takes the place of alpha. Gemma models: 2e-4 · 16 / alpha at any size.
 *
 * @see Schulman and others, LoRA Without Regret (2025): the best rate does not depend on the rank under one
 * alpha; and the recipes for Tinker, which fitted the powers over 0.6B to 70B parameters
 */
export function suitableLearningRate(
  { name, hiddenSize }: Pick<LearnerModel, 'name' | 'hiddenSize'>,
  lora: RateShape,
): number {
  const alpha = largestAlpha(lora);
  const exponent = name.startsWith('qwen') ? 0.0775 : 0.781;
  const rate = name.startsWith('gemma') ? GEMMA_RATE : 5e-4 * (2000 / hiddenSize) ** exponent;
  return Math.min((rate * DEFAULT_ALPHA) / alpha, HIGHEST);
}

/** The suitable rate replaces `auto`. */
export function resolveLearningRate<Rate>(
  rate: Rate,
  model: Pick<LearnerModel, 'name' | 'hiddenSize'>,
  lora: RateShape,
): Exclude<Rate, 'auto'> | number {
  return rate === 'auto' ? suitableLearningRate(model, lora) : (rate as Exclude<Rate, 'auto'>);
}

/** @param rates of the job's gradient steps; rates of 0 are intentional */
export function learningRateWarnings(
  rates: readonly number[],
  architecture: Pick<LearnerModel, 'name' | 'hiddenSize'>,
  lora: RateShape,
): JobWarning[] {
  const highest = rates.reduce((max, rate) => Math.max(max, rate), 0);
  if (highest === 0) return [];
  const suitable = suitableLearningRate(architecture, lora);
  const factor = Math.max(suitable / highest, highest / suitable);
  if (factor < FAR) return [];
  const isLow = highest < suitable;
  return [
    {
      code: isLow ? 'learning_rate_low' : 'learning_rate_high',
      message:
        `\`learning_rate\` is ${rounded(highest)}, ${times(factor)} times ${isLow ? 'below' : 'above'} ` +
        `the rate for an adapter of alpha ${shortened(largestAlpha(lora))} on a hidden size of ${architecture.hiddenSize}`,
      value: highest,
      suggestion: `keep \`learning_rate\` at \`auto\`, or set it to about ${rounded(suitable)}`,
    },
  ];
}

/** Largest scale · rank of a module: alpha, unless the adapter is rank-stabilised or has alphas by module. */
function largestAlpha(lora: RateShape): number {
  if (isUniform(lora)) return lora.alpha;
  const whole = { ...DEFAULT_LORA_CONFIG, ...lora };
  const shapes = whole.targets.flatMap((linear) => shapesOf(whole, linear));
  const largest = Math.max(...shapes.map(({ rank, scale }) => Math.abs(scale) * rank));
  return largest > 0 ? largest : lora.alpha;
}

const shortened = (value: number): number => Number(value.toPrecision(6));
const times = (factor: number): string => (factor < 1e6 ? factor.toFixed(0) : factor.toExponential(2));
const rounded = (rate: number): string => rate.toExponential(1);
