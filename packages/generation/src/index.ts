export { BackendTokens } from './backend-tokens.ts';
export type { ConstraintSpec, TokenMatcher, WhitespaceOption } from '@trainyard/constraints';
export { needsPythonValues, parsePythonValues, readPythonArguments } from '@trainyard/tokenizer';
export type { ParsedReply, ReplyDelta, ToolCallDelta, ToolDescription } from '@trainyard/tokenizer';
export { DEFAULT_CHAT_PROMPT, DEFAULT_GENERATE } from './contract/generate-request.ts';
export type {
  ChatPrompt,
  EngineEvent,
  GenerateRequest,
  Prompt,
  ReplyReading,
  Usage,
} from './contract/generate-request.ts';
export type { TextTokenizer } from './contract/text-tokenizer.ts';
export { openTextHalf, openTextOfFile } from './open-text-half.ts';
export type { TextHalf, TextHalfOptions, TokenizerFacts } from './open-text-half.ts';
export type { ChatInput, EngineTemplate, RenderedChat, TemplateSandbox } from './prompt/chat.ts';
export type { PromptBorders } from './prompt/prompt.ts';
export { TextCodec } from './prompt/text-codec.ts';
export type { TokenizeInput } from './prompt/text-codec.ts';
export type { ConstraintCompiler } from './reply/constraint.ts';
export { TextEngine } from './text-engine.ts';
export type { TextEngineParts } from './text-engine.ts';
