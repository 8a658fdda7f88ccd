import { ignoredConfigKeys, unsupportedConfigField, type WireTrainingConfig } from '@trainyard/protocol';
import { resolveTrainingConfig, type TrainingConfig } from '@trainyard/trainer';

import { RequestError } from '../request-error.ts';

/** Longest row whatever the base model allows; ART's limit too. */
const MAX_ROW_TOKENS = 32_768;

/** What a job's row keeps of its settings. */
export interface JobConfig {
  /** Complete: what the trainer computes with. */
  resolved: TrainingConfig;
  /** `experimental_config` as sent. */
  requested: Record<string, unknown>;
  /** Keys of it that this version does not know. */
  ignoredKeys: string[];
}

/**
 * Reads `experimental_config`. Null and absent are the same: the default.
 *
 * @param contextLength longest sequence of the base model, tokens: longer histories are left out and counted
 * @throws {RequestError} `request.invalid` for a known field whose value the trainer does not implement
 * @throws {TrainerError} `trainer.config_invalid`
 */
export function readJobConfig(wire: WireTrainingConfig | null | undefined, contextLength: number): JobConfig {
  const requested = wire ?? {};
  const unsupported = unsupportedConfigField(requested);
  if (unsupported !== null) {
    throw RequestError.invalid([
      {
        loc: ['body', 'experimental_config', unsupported],
        msg: 'Only the default of this field is supported yet',
        type: 'not_supported',
        input: requested[unsupported as keyof WireTrainingConfig],
      },
    ]);
  }
  return {
    resolved: resolveTrainingConfig({
      ...toInput(requested),
      maxSequenceLength: Math.min(MAX_ROW_TOKENS, contextLength),
    }),
    requested: { ...requested },
    ignoredKeys: ignoredConfigKeys(requested),
  };
}

/** The fields the trainer implements, under its names. */
function toInput(wire: WireTrainingConfig): Parameters<typeof resolveTrainingConfig>[0] {
  return {
    learningRate: wire.learning_rate,
    ppo: wire.ppo,
    lossFn: wire.loss_fn,
    epsilon: wire.epsilon,
    epsilonHigh: wire.epsilon_high,
    importanceSamplingLevel: wire.importance_sampling_level,
    scaleRewards: wire.scale_rewards,
    normalizeAdvantages: wire.normalize_advantages,
    advantageBalance: wire.advantage_balance,
    maskProbRatio: wire.mask_prob_ratio,
    maxNegativeAdvantageImportanceSamplingWeight: wire.max_negative_advantage_importance_sampling_weight,
    kimiK2Tau: wire.kimi_k2_tau,
    precalculateLogprobs: wire.precalculate_logprobs,
    truncatedImportanceSampling: wire.truncated_importance_sampling,
  };
}
