export { ChatTemplate, type ChatTemplateOptions } from './template/chat-template.ts';
export { TemplateProgram } from './template/template-program.ts';
export type { RenderedPrompt, RenderOptions } from './template/prompt-input.ts';
export type { ToolSupport } from './tools/tool-support.ts';
export { arrangeTurns } from './turns/arrange-turns.ts';
export type { TurnSupport } from './turns/turn-support.ts';
export { historyTurns, renderHistory, type HistoryItem } from './history/render-history.ts';
export { renderSupervised, supervisedTurns, type SupervisedOptions } from './history/render-supervised.ts';
export { TraceWriter } from './history/trace-writer.ts';
export { isKept, KeptTokensWriter, lowerBound, readKeptTokens } from './history/kept-tokens.ts';
export { GPT2_PATTERN, splitterNameOf, splitterPatterns } from './encoding/splitters.ts';
export type { StreamDecoder } from './encoding/stream-decoder.ts';
export { readPythonArguments } from './contract/arguments-text.ts';
export { needsPythonValues, parsePythonValues } from './contract/python-values.ts';
export {
  contentText,
  type ContentFormat,
  type ContentPart,
  type TemplateMessage,
} from './contract/template-message.ts';
export { Tokenizer, type TokenizerOptions } from './encoding/tokenizer.ts';
export { TokenizerError, type TokenizerErrorCode } from './contract/tokenizer-error.ts';
export type { ChoiceItem, TrainingSequence } from './history/training-sequence.ts';
export type { Vocabulary } from './contract/vocabulary.ts';
export { detectReasoning, type ReasoningState } from './reply/reasoning-reader.ts';
export { ReplyParser, type ReplyParserOptions } from './reply/reply-parser.ts';
export { HARMONY_MARKS } from './reply/harmony-reader.ts';
export { heldBack } from './reply/reply-text.ts';
export type { ParsedReply, ReplyDelta, ToolCallDelta } from './reply/reply-record.ts';
export { detectToolFormat, keepsSpecialTokens, randomToolCallId, type ToolFormat } from './reply/tool-format.ts';
export { withReferences } from './tools/schema-references.ts';
export { argumentsSchema, toolChoiceSchema, type ForcedToolChoice } from './tools/tool-choice-schema.ts';
export type { ToolDescription } from './contract/tool-description.ts';
export { withHermesTools } from './tools/hermes-tools.ts';
export {
  renderInSandbox,
  TemplateSandbox,
  type SandboxedPrompt,
  type SandboxRenderOptions,
  type TemplateSandboxOptions,
} from './sandbox/template-sandbox.ts';
