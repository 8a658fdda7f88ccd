/**
 * Part of the protocol for packages below HTTP: the tables of fields and their derived types, without a
 * schema library. `@trainyard/protocol/fields`.
 */
export {
  changesDistribution,
  type ChoiceSampling,
  type KeptTokens,
  type LostTrace,
  MAX_TRACE_BYTES,
  type SamplingChanges,
  type SamplingTrace,
  type TokenDraw,
} from './choice-sampling.ts';
export {
  isLogitsMode,
  isProcessedMode,
  LOGPROBS_MODES,
  type LogprobsMode,
  logprobsModeOf,
  MIN_LOGPROB,
} from './logprobs-mode.ts';
export { didYouMean } from './did-you-mean.ts';
export { type Form, LARGEST_SINGLE, type ValueOf, unfitness } from './form.ts';
export { LEAST_LORA_ALPHA } from './lora-alpha.ts';
export { formatMegabytes } from './megabytes.ts';
export { NAME_PATTERN } from './name-pattern.ts';
export { REQUEST_LIMITS } from './request-limits.ts';
export {
  briefly,
  type FieldNames,
  type FieldText,
  type NamedField,
  naming,
  quoting,
  renameFields,
  renderFieldText,
} from './field-text.ts';
export {
  type DistributionChange,
  type RepetitionDetection,
  SAMPLING_FIELDS,
  type SamplingField,
} from './sampling-fields.ts';
export { isReply, isSampledChoice, logprobEntriesOf, promptLength } from './sampled-choice.ts';
export { mixesSamplers, withSamplerNames } from './sampler-metrics.ts';
export {
  DEFAULT_PARAMS,
  DEFAULT_SAMPLING,
  distributionChanges,
  fieldsThatChange,
  findUnfitParam,
  NO_TRUNCATION,
  type PlainParams,
  readParams,
  type SamplingParams,
  type Truncation,
} from './sampling-params.ts';
export { findForeignToken, type ForeignToken } from './token-ids.ts';
export { type JobFieldTable, type JobInput, type NamesOfPart, type PlainSettings } from './job-field.ts';
export { TRAINING_FIELDS } from './training-fields.ts';
export { SFT_EXPERIMENTAL_FIELDS, SFT_FIELDS } from './sft-fields.ts';
