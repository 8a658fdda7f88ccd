import { contentText, parsePythonValues, TokenizerError } from '@trainyard/tokenizer';
import type { ChatTemplate, RenderOptions, TemplateMessage, ToolFormat } from '@trainyard/tokenizer';
import { EngineError, refusal } from '@trainyard/backend';
import { naming } from '@trainyard/protocol/fields';
import type { ChatPrompt, Prompt } from '../contract/generate-request.ts';

export type EngineTemplate = Pick<ChatTemplate, 'render' | 'source' | 'toolFormat'>;

export interface RenderedChat {
  readonly tokenIds: ArrayLike<number>;
  readonly text: string;
  readonly source: string;
  /** Format of tool calls in replies; null = unknown. */
  readonly toolFormat: ToolFormat | null;
}

/** Renders with templates of requests where a runaway one does no harm. */
export interface TemplateSandbox {
  /** @returns the prompt; rejects with a message for the client */
  render(source: string, input: ChatInput, signal: AbortSignal): Promise<Omit<RenderedChat, 'source'>>;
  close(): void;
}

export interface ChatInput {
  readonly messages: readonly TemplateMessage[];
  readonly options: RenderOptions;
}

/**
 * Renders at once with the model's own template, asynchronously with the request's.
 * @throws {EngineError} engine.template_failed, context_length_exceeded, engine.invalid_request
 */
export function renderChat(
  prompt: ChatPrompt,
  parts: { template: EngineTemplate | null; templateSandbox: TemplateSandbox | null },
  signal: AbortSignal,
): RenderedChat | Promise<RenderedChat> {
  const source = prompt.chatTemplate;
  if (source === null) return renderOwn(prompt, parts.template, parts.templateSandbox !== null);
  if (parts.templateSandbox === null) {
    throw refusal(
      'chatTemplate',
      naming`${{ field: 'chatTemplate' }} must be null: this service runs no templates of requests`,
    );
  }
  return parts.templateSandbox.render(source, chatInput(prompt), signal).then(
    (rendered) => ({ ...rendered, source }),
    (cause: unknown) => {
      throw asPromptError('chatTemplate', cause);
    },
  );
}

/** True if the prompt's template can be rendered here. */
export function canRender(
  { chatTemplate }: ChatPrompt,
  { template, templateSandbox }: { template: EngineTemplate | null; templateSandbox: TemplateSandbox | null },
): boolean {
  return (chatTemplate === null ? template : templateSandbox) !== null;
}

/**
 * Renders with the model's own template. @throws {EngineError} engine.template_failed,
 * context_length_exceeded
 */
function renderOwn(prompt: ChatPrompt, template: EngineTemplate | null, runsOthers: boolean): RenderedChat {
  if (template === null) {
    const name = { field: 'chatTemplate' } as const;
    const text = runsOthers
      ? naming`the model has no chat template: send one as ${name}, or token ids as the prompt`
      : naming`the model has no chat template, and ${name} is not allowed here: send token ids as the prompt`;
    throw new EngineError('engine.template_failed', text, { param: 'messages' });
  }
  try {
    const { messages, options } = chatInput(prompt);
    const { tokenIds, text } = template.render(messages, options);
    return { tokenIds, text, source: template.source, toolFormat: template.toolFormat };
  } catch (error) {
    throw asPromptError('messages', error);
  }
}

function chatInput(prompt: ChatPrompt): ChatInput {
  const { messages, continueFinalMessage, addGenerationPrompt } = prompt;
  const tools = prompt.toolsText === null ? prompt.tools : (parsePythonValues(prompt.toolsText) as unknown[]);
  return {
    messages: continueFinalMessage ? openEnded(messages) : messages,
    options: {
      tools,
      addGenerationPrompt,
      continueFinalMessage,
      templateVariables: variablesOf(prompt),
    },
  };
}

function variablesOf({
  templateVariables,
  templateVariablesText: text,
}: ChatPrompt): Readonly<Record<string, unknown>> {
  if (text === null) return templateVariables;
  const read = parsePythonValues(text) as Record<string, unknown> | Map<string, unknown>;
  return read instanceof Map ? Object.fromEntries(read) : read;
}

/**
 * Text that the reply to a prompt continues; empty if the reply starts by itself. @throws {TokenizerError}
 * `tokenizer.unsupported_content`
 */
export function continuedText(prompt: Prompt): string {
  if (prompt.kind !== 'chat' || !prompt.continueFinalMessage) return '';
  return contentText(openEnded(prompt.messages).at(-1)?.content);
}

/**
 * Right-trims the last message, in its last part if it has several: tokens of a continuation start with the
 * blank.
 */
function openEnded(messages: readonly TemplateMessage[]): TemplateMessage[] {
  const last = messages.at(-1);
  const content = last?.content;
  return last === undefined || content === undefined || content === null
    ? [...messages]
    : [...messages.slice(0, -1), { ...last, content: trimmedEnd(content) }];
}

function trimmedEnd(content: NonNullable<TemplateMessage['content']>): NonNullable<TemplateMessage['content']> {
  if (typeof content === 'string') return content.trimEnd();
  const last = content.at(-1);
  if (last === undefined) return content;
  if (typeof last === 'string') return [...content.slice(0, -1), last.trimEnd()];
  const entries = Object.entries(last).map(([key, value]) =>
    key !== 'type' && typeof value === 'string' ? [key, value.trimEnd()] : [key, value],
  );
  return [...content.slice(0, -1), Object.fromEntries(entries)];
}

export function asPromptError(param: string, cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause;
  const message = cause instanceof Error ? cause.message : String(cause);
  const code = cause instanceof TokenizerError ? cause.code : null;
  if (code === 'tokenizer.text_too_long') return new EngineError('context_length_exceeded', message, { param, cause });
  const field = code === 'tokenizer.final_message_lost' ? 'continueFinalMessage' : param;
  return new EngineError('engine.template_failed', message, { param: field, cause });
}
