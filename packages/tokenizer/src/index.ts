export { ByteVocabulary, type ByteVocabularyOptions } from './byte-vocabulary.ts';
export { ChatTemplate, type ChatTemplateOptions } from './chat-template.ts';
export type { RenderedPrompt, RenderOptions } from './prompt-input.ts';
export type { ToolSupport } from './tools/tool-support.ts';
export { renderHistory, type HistoryItem } from './render-history.ts';
export { renderSupervised, type SupervisedOptions } from './render-supervised.ts';
export {
  changesDistribution,
  MAX_TRACE_BYTES,
  type ChoiceSampling,
  type LostTrace,
  type SamplingChanges,
  type SamplingTrace,
} from './choice-sampling.ts';
export { isKept, KeptTokensWriter, lowerBound, readKeptTokens, type KeptTokens } from './kept-tokens.ts';
export { splitterPatterns } from './splitters.ts';
export type { StreamDecoder } from './stream-decoder.ts';
export type { ContentFormat, ContentPart, TemplateMessage } from './template-message.ts';
export { defaultTemplateVariables } from './template-variables.ts';
export { Tokenizer, type TokenizerOptions } from './tokenizer.ts';
export { TokenizerError, type TokenizerErrorCode } from './tokenizer-error.ts';
export type { ChoiceItem, TrainingSequence } from './training-sequence.ts';
export type { Vocabulary } from './vocabulary.ts';
export { detectReasoning, type ReasoningState } from './reply/reasoning-reader.ts';
export { ReplyParser, type ReplyParserOptions } from './reply/reply-parser.ts';
export type { ParsedReply, ReplyDelta, ToolCallDelta } from './reply/reply-record.ts';
export { detectToolFormat, keepsSpecialTokens, randomToolCallId, type ToolFormat } from './reply/tool-format.ts';
export { toolChoiceSchema, type ForcedToolChoice } from './tools/tool-choice-schema.ts';
export type { ToolDescription } from './tools/tool-description.ts';
export { withHermesTools } from './tools/hermes-tools.ts';
export {
  renderInSandbox,
  TemplateSandbox,
  type SandboxedPrompt,
  type SandboxRenderOptions,
  type TemplateSandboxOptions,
} from './sandbox/template-sandbox.ts';
