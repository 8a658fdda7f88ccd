export type { ConstraintSpec, TokenMatcher, WhitespaceOption } from '@trainyard/constraints';
export { Engine } from './engine.ts';
export type { EngineParts } from './engine.ts';
export type { ChatInput, EngineTemplate, EngineTokenizer, RenderedChat, TemplateSandbox } from './chat.ts';
export type { ConstraintCompiler } from './constraint.ts';
export type { EngineLimits } from './engine-limits.ts';
export type { EngineStats, StepReport } from './engine-stats.ts';
export { EngineError } from './errors.ts';
export type { EngineErrorCode } from './errors.ts';
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
  SamplingParams,
  TokenFace,
  TokenLogprob,
  TopLogprob,
  Usage,
} from './generate-request.ts';
export type { ChoiceSampling, ParsedReply, ReplyDelta, ToolCallDelta, ToolDescription } from '@trainyard/tokenizer';
export { KvFullError, StepBatch } from './model-runner.ts';
export type { ModelRunner, RunnerAdapter } from './model-runner.ts';
export { LlamaRunner } from './llama-runner.ts';
export { ScriptedRunner } from './scripted-runner.ts';
export type { LogitsScript, ScriptedRunnerOptions } from './scripted-runner.ts';
export { openScriptedEngine } from './scripted-engine.ts';
export type { ScriptedContext, ScriptedEngine, ScriptedEngineOptions, ScriptedModel } from './scripted-engine.ts';
export type { PromptBorders } from './prompt.ts';
export { REQUEST_LIMITS } from './request-limits.ts';
export type { SchedulingPolicy } from './scheduler.ts';
export { openEngine } from './open-engine.ts';
export type { OpenedEngine, OpenEngineOptions, ServedModel, TokenizerFacts } from './open-engine.ts';
export { TextCodec } from './text-codec.ts';
export type { TokenizeInput } from './text-codec.ts';
