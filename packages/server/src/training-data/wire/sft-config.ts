import {
  type CreateSftTrainingJobRequest,
  ignoredSftConfigKeys,
  SFT_EXPERIMENTAL_FIELDS,
  SFT_FIELDS,
  toJobInput,
} from '@trainyard/protocol';
import { type HeldOutSource, learningRates, numSftSteps, resolveSftConfig, type SftConfig } from '@trainyard/trainer';

/** Longest conversation for any base model; also ART's limit. */
const MAX_CONVERSATION_TOKENS = 32_768;

/** Data of a job, as shown to its owner. */
export interface SftSource {
  /** Without secrets of a signed URL, and without the data of a `data:` one. */
  readonly url: string;
  /** Lines of the file, held-out ones included. */
  readonly numLines: number;
  /** Absent: none. */
  readonly heldOut?: HeldOutData;
}

export interface HeldOutData {
  /** As the other one; null for lines of the training data. */
  readonly url: string | null;
  readonly numLines: number;
  /** The first ones, which are stored after the training data. */
  readonly numUsed: number;
}

/** Place of the held-out lines in the stored data; null without any. */
export function heldOutSource({ numLines, heldOut }: SftSource): HeldOutSource | null {
  return heldOut === undefined ? null : { from: heldOut.url === null ? 'training_data' : 'own_data', numLines };
}

/** The URL of training data without its query, user and inline data. */
export function shownUrl(url: string): string {
  if (/^data:/i.test(url)) return `${url.slice(0, url.indexOf(',') + 1)}…`;
  return url.replace(/[?#].*$/s, '').replace(/^([a-z-]+:\/\/)[^/@]*@/i, '$1');
}

export interface SftJobConfig {
  resolved: SftConfig;
  /** Keys unknown to this version, and the unused rest of a list of learning rates. */
  ignoredKeys: string[];
}

/**
 * Reads `config` and `experimental_config`. Null and absent mean the default.
 * @param contextLength longest sequence of the base model, tokens: longer conversations are omitted and
 * counted
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
 * Fits the settings to the number of trained conversations. Surplus learning rates of a list are reported as ignored.
 * @throws {TrainerError} `trainer.config_invalid` if the list is shorter than the number of batches
 */
export function fitSftConfig({ resolved, ignoredKeys }: SftJobConfig, numExamples: number): SftJobConfig {
  const { learningRate } = resolved;
  // The value of `auto` does not matter here.
  const rates = { ...resolved, learningRate: learningRate === 'auto' ? 0 : learningRate };
  const numUsed = learningRates(rates, numSftSteps(numExamples, resolved)).length;
  const hasMore = typeof learningRate === 'object' && learningRate.length > numUsed;
  return { resolved, ignoredKeys: hasMore ? [...ignoredKeys, `learning_rate[${numUsed}:]`] : ignoredKeys };
}
