export type { ConstraintSpec, TokenMatcher, WhitespaceOption } from '@trainyard/constraints';
export { Engine } from './engine.ts';
export type { EngineParts } from './engine.ts';
export type { EngineTokenizer } from './contract/engine-tokenizer.ts';
export type { ChatInput, EngineTemplate, RenderedChat, TemplateSandbox } from './prompt/chat.ts';
export type { ConstraintCompiler } from './reply/constraint.ts';
export type { EngineLimits } from './batching/engine-limits.ts';
export type { EngineStats, StepReport } from './contract/engine-stats.ts';
export { EngineError } from './contract/errors.ts';
export type { EngineErrorCode } from './contract/errors.ts';
export type {
  AdapterRef,
  ChatPrompt,
  EngineEvent,
  FinishReason,
  GenerateRequest,
  LogprobsMode,
  Prompt,
  PromptLogprob,
  PromptLogprobs,
  RepetitionDetection,
  ReplyReading,
  SampleRequest,
  SamplingParams,
  TokenFace,
  TokenLogprob,
  TopLogprob,
  Usage,
} from './contract/generate-request.ts';
export type { ChoiceSampling, ParsedReply, ReplyDelta, ToolCallDelta, ToolDescription } from '@trainyard/tokenizer';
export { FlatLogits, KvFullError, StepBatch } from './runner/model-runner.ts';
export type { DrawnRows, Eventually, LogitRows, ModelRunner, RowDraw, RunnerAdapter } from './runner/model-runner.ts';
export { LlamaRunner } from './runner/llama-runner.ts';
export type { PromptBorders } from './prompt/prompt.ts';
export { REQUEST_LIMITS } from './contract/request-limits.ts';
export type { SchedulingPolicy } from './contract/scheduling-policy.ts';
export { openEngine } from './open-engine.ts';
export type { OpenedEngine, OpenEngineOptions, ServedModel, TokenizerFacts } from './open-engine.ts';
export { TokenEngine } from './tokens/token-engine.ts';
export type { TokenEngineParts, TokenSubmission } from './tokens/token-engine.ts';
export { TokenSampler } from './tokens/token-sampler.ts';
export type { SampledLogprob, SampledTokens, SampleParams, SampleTotals } from './tokens/token-sampler.ts';
export { TextCodec } from './prompt/text-codec.ts';
export type { TokenizeInput } from './prompt/text-codec.ts';
