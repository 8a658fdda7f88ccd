import {
  type CreateTrainingJobRequest,
  ignoredConfigKeys,
  type JobFieldTable,
  SFT_EXPERIMENTAL_FIELDS,
  SFT_FIELDS,
  toJobInput,
  TRAINING_FIELDS,
  type WireTrainingConfig,
} from '@trainyard/protocol';
import { resolveSftConfig, resolveTrainingConfig, TrainerError, type TrainingConfig } from '@trainyard/trainer';

import { RequestError } from '../../seams/faults/request-error.ts';

/** Longest row for any base model; also ART's limit. */
const MAX_ROW_TOKENS = 32_768;

/** Equivalent names of the settings in a request. */
type ConfigName = 'experimental_config' | 'config';

/** Name that a request uses. @throws {RequestError} `request.invalid` if it uses both */
export function configNameOf({
  experimental_config: own,
  config,
}: Pick<CreateTrainingJobRequest, ConfigName>): ConfigName {
  if (config === null || config === undefined) return 'experimental_config';
  if (own === null || own === undefined) return 'config';
  const msg = '`config` and `experimental_config` are two names of the same settings: send one of them';
  throw RequestError.invalid([{ loc: ['body', 'config'], msg, type: 'value_error' }]);
}

export interface JobConfig {
  resolved: TrainingConfig;
  /** `experimental_config` as sent. */
  requested: Record<string, unknown>;
  /** Its keys without effect. */
  ignoredKeys: string[];
}

/**
 * Reads the settings of a job. Null and absent mean the default.
 * @param contextLength longest sequence of the base model, tokens: longer histories are omitted and counted
 * @throws {RequestError} `request.invalid` for values outside their limits, or that contradict each other,
 * with the field
 */
export function readJobConfig(
  wire: WireTrainingConfig | null | undefined,
  contextLength: number,
  name: ConfigName = 'experimental_config',
): JobConfig {
  const requested: Record<string, unknown> = { ...wire };
  const maxSequenceLength = Math.min(MAX_ROW_TOKENS, contextLength);
  try {
    const resolved = resolveTrainingConfig({ ...toJobInput(TRAINING_FIELDS, requested), maxSequenceLength });
    return { resolved, requested, ignoredKeys: ignoredConfigKeys(requested) };
  } catch (error) {
    if (!(error instanceof TrainerError) || error.code !== 'trainer.config_invalid') throw error;
    throw configFault(error.field, error.message, name);
  }
}

/** A refused setting; `message` has its name, limit and value. */
export function configFault(
  field: string | null,
  message: string,
  name: ConfigName = 'experimental_config',
): RequestError {
  const loc = ['body', name, ...(field === null ? [] : [field])];
  return RequestError.invalid([{ loc, msg: message, type: 'value_error' }]);
}

/** Wire names of settings that are not fields of a job, and of settings in stored jobs of earlier versions. */
const OTHER_SETTINGS = {
  maxSequenceLength: 'max_sequence_length',
  learningRateMinimum: 'learning_rate_minimum',
  warmupSteps: 'warmup_steps',
  minLearningRate: 'min_learning_rate',
} as const;

const WIRE_NAMES: ReadonlyMap<string, string> = new Map([
  ...[SFT_EXPERIMENTAL_FIELDS, SFT_FIELDS, TRAINING_FIELDS].flatMap((table: JobFieldTable) =>
    Object.entries(table).flatMap(([field, { name, resolvedName = name }]) =>
      resolvedName === undefined ? [] : [[resolvedName, field] as const],
    ),
  ),
  ...Object.entries(OTHER_SETTINGS),
]);

/** A job's complete settings under their wire names. Both kinds of jobs use one name for shared settings. */
export function toWireConfig(resolved: unknown): Record<string, unknown> {
  const entries = Object.entries(typeof resolved === 'object' && resolved !== null ? resolved : {});
  return Object.fromEntries(entries.map(([name, value]) => [WIRE_NAMES.get(name) ?? name, value]));
}

type LossFunction = TrainingConfig['lossFunction'];

/** Wire names of settings that differ from the defaults of their kind of job, or of their loss. */
export function changedKeys(kind: 'rl' | 'sft', resolved: unknown): string[] {
  const settings = toWireConfig(resolved);
  const plain = defaultsOf(kind, undefined);
  const ofLoss = defaultsOf(kind, settings['loss_fn']);
  const isChanged = (key: string) => {
    const defaults = key === 'loss_fn' ? plain : ofLoss;
    return key in defaults && JSON.stringify(settings[key]) !== JSON.stringify(defaults[key]);
  };
  return Object.keys(settings).filter(isChanged);
}

/** Defaults by kind and loss: each job of a list asks for two of a few. */
const DEFAULTS = new Map<string, Readonly<Record<string, unknown>>>();

/** Settings of a job that sends none, without those of its base model. */
function defaultsOf(kind: 'rl' | 'sft', lossFunction: unknown): Readonly<Record<string, unknown>> {
  const name = `${kind} ${String(lossFunction)}`;
  const known = DEFAULTS.get(name);
  if (known !== undefined) return known;
  const { maxSequenceLength: _ofBaseModel, ...defaults } =
    kind === 'sft'
      ? resolveSftConfig({}, { maxSequenceLength: MAX_ROW_TOKENS })
      : resolveTrainingConfig(lossFunction === undefined ? {} : { lossFn: lossFunction as LossFunction });
  const written = toWireConfig(defaults);
  DEFAULTS.set(name, written);
  return written;
}
