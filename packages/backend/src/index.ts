export { checkFeatures } from './check-features.ts';
export { check, checkCount, isIntegerIn, refusal } from './check-field.ts';
export { checkFirstToken, whyNoToken } from './check-next-token.ts';
export { checkPromptIds, checkPromptLength, checkVocabulary } from './check-prompt-ids.ts';
export type { ComputeTurns } from './compute-turns.ts';
export type { EndTokens } from './vocabulary/end-tokens.ts';
export type { EngineStats } from './engine-stats.ts';
export { asEngineError, EngineError, fromFailure, toFailure } from './errors.ts';
export type { EngineErrorCode, EngineFailure } from './errors.ts';
export { distanceOfScores } from './fixed-scores.ts';
export type { FixedScores } from './fixed-scores.ts';
export { deadlineAfter } from './pool/deadline.ts';
export { HashRing } from './pool/hash-ring.ts';
export type { RingMember } from './pool/hash-ring.ts';
export { HttpConnections, readAnswerText } from './pool/http-connections.ts';
export type { LocalTokens, SampleLimits, TokenSubmission } from './local-tokens.ts';
export type { ChoiceConstraint, ChoiceText, Finish, RequestText, StopVerdict, TokenEnding } from './request-text.ts';
export type {
  FinishReason,
  PromptLogprob,
  PromptLogprobs,
  SampledEnd,
  SampledOutput,
  SampleEvent,
  SampleUsage,
  TokenDescription,
  TokenLogprob,
  TopLogprob,
} from './sample-event.ts';
export { noTokenLeft } from './no-token-left.ts';
export type { TokenMasks } from './no-token-left.ts';
export { DEFAULT_SAMPLE } from './sample-request.ts';
export type { AdapterRef, AdapterVersion, SampleRequest } from './sample-request.ts';
export { clampedBias, samplingChangesOf } from './sampling-changes.ts';
export type { SchedulingPolicy } from './scheduling-policy.ts';
export type { StepReport } from './step-report.ts';
export type {
  BackendHealth,
  BackendMember,
  BackendModel,
  LoadedVersion,
  RefusedVersion,
  ReportedDraw,
  SampledEntry,
  SampledLogprob,
  SampledTokens,
  SampleFeature,
  SampleOutput,
  SampleParams,
  SampleTotals,
  ScoredLogprob,
  ScoredTokens,
  ScoreParams,
  TokenBackend,
  TokenBackendCapabilities,
  UnderConstraint,
} from './token-backend.ts';
export { TokenDescriptions } from './token-descriptions.ts';
export type { TokenTexts } from './token-descriptions.ts';
export { allow, allows, allowsOnly, createTokenMask } from './vocabulary/token-mask.ts';
export type { TokenMask } from './vocabulary/token-mask.ts';
export { validateSampleRequest } from './validate-sample-request.ts';
export type { SamplingParams } from '@trainyard/protocol/fields';
