import {
  type CreateSftTrainingJobRequest,
  ignoredSftConfigKeys,
  SFT_EXPERIMENTAL_FIELDS,
  SFT_FIELDS,
  toJobInput,
} from '@trainyard/protocol';
import { learningRates, numSftSteps, resolveSftConfig, type SftConfig } from '@trainyard/trainer';

/** Longest conversation whatever the base model allows; ART's limit too. */
const MAX_CONVERSATION_TOKENS = 32_768;

/** The settings of a supervised job that its row keeps. */
export interface SftJobConfig {
  /** Complete: what the trainer computes with. */
  resolved: SftConfig;
  /** Keys that this version does not know, and the rest of a list of learning rates. */
  ignoredKeys: string[];
}

/**
 * Reads `config` and `experimental_config`. Null and absent are the same: the default.
 *
 * @param contextLength longest sequence of the base model, tokens: longer conversations are left out and counted
 * @throws {TrainerError} `trainer.config_invalid`
 */
export function readSftConfig(
  body: Pick<CreateSftTrainingJobRequest, 'config' | 'experimental_config'>,
  contextLength: number,
): SftJobConfig {
  const config = body.config ?? {};
  const experimental = body.experimental_config ?? {};
  const input = { ...toJobInput(SFT_FIELDS, config), ...toJobInput(SFT_EXPERIMENTAL_FIELDS, experimental) };
  const limits = { maxSequenceLength: Math.min(MAX_CONVERSATION_TOKENS, contextLength) };
  return { resolved: resolveSftConfig(input, limits), ignoredKeys: ignoredSftConfigKeys(config, experimental) };
}

/**
 * The settings for data of so many conversations. What a list of learning rates has too many is named as ignored.
 *
 * @throws {TrainerError} `trainer.config_invalid` when the list is shorter than the number of batches
 */
export function fitSftConfig({ resolved, ignoredKeys }: SftJobConfig, numExamples: number): SftJobConfig {
  const { learningRate } = resolved;
  // Which rate `auto` is does not matter here.
  const rates = { ...resolved, learningRate: learningRate === 'auto' ? 0 : learningRate };
  const numUsed = learningRates(rates, numSftSteps(numExamples, resolved)).length;
  const hasMore = typeof learningRate === 'object' && learningRate.length > numUsed;
  return { resolved, ignoredKeys: hasMore ? [...ignoredKeys, `learning_rate[${numUsed}:]`] : ignoredKeys };
}
