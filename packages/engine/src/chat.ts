import { defaultTemplateVariables, TokenizerError } from '@trainyard/tokenizer';
import type { ChatTemplate, TemplateMessage, Tokenizer } from '@trainyard/tokenizer';
import { EngineError } from './errors.ts';
import type { ChatPrompt, GenerateRequest } from './generate-request.ts';
import { REQUEST_LIMITS } from './request-limits.ts';

/** What the engine asks of a tokenizer. */
export type EngineTokenizer = Pick<
  Tokenizer,
  | 'vocabSize'
  | 'eosTokenId'
  | 'endTokenIds'
  | 'tokenBytes'
  | 'tokenText'
  | 'createDecoder'
  | 'encode'
  | 'encodeWithSpecial'
>;
export type EngineTemplate = Pick<ChatTemplate, 'renderer' | 'source'>;

/** Ids that the vocabulary itself puts around a text, such as a beginning-of-sequence token. */
export interface PromptBorders {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

/** Renders with templates that came with a request, in a place where they can run wild without harm. */
export interface TemplateSandbox {
  /**
   * @param source Jinja
   * @param prompt all its options count but `chatTemplate` and `addSpecialTokens`
   * @returns the prompt's ids; rejects with a message for the client
   */
  render(source: string, prompt: ChatPrompt, signal: AbortSignal): Promise<Iterable<number>>;
}

export interface PromptParts {
  tokenizer: EngineTokenizer;
  /** null refuses chat prompts; token ids still work. */
  template: EngineTemplate | null;
  /** null refuses templates that come with a request. */
  templateSandbox: TemplateSandbox | null;
  borders: PromptBorders;
}

/**
 * Ids of a request's prompt before truncation; at once, or later where they are made elsewhere.
 * @throws {EngineError} engine.template_failed, engine.context_too_long, engine.invalid_request
 */
export function encodePrompt(
  { prompt }: GenerateRequest,
  parts: PromptParts,
  signal: AbortSignal,
): readonly number[] | Promise<readonly number[]> {
  const within = (ids: Iterable<number>, hasBorders: boolean): readonly number[] =>
    hasBorders ? [...parts.borders.before, ...ids, ...parts.borders.after] : Array.from(ids);
  switch (prompt.kind) {
    case 'tokens':
      return Array.from(prompt.tokenIds);
    case 'text':
      return within(
        attempt('prompt', () => parts.tokenizer.encodeWithSpecial(prompt.text)),
        prompt.addSpecialTokens,
      );
    case 'chat': {
      const hasBorders = prompt.addSpecialTokens ?? false;
      checkOpenEnd(prompt);
      if (typeof prompt.chatTemplate !== 'string') return within(renderChat(prompt, parts.template), hasBorders);
      if (parts.templateSandbox === null) {
        throw new EngineError(
          'engine.invalid_request',
          'chatTemplate must be null: templates of requests are not run',
          {
            param: 'chatTemplate',
          },
        );
      }
      return parts.templateSandbox.render(prompt.chatTemplate, prompt, signal).then(
        (ids) => within(ids, hasBorders),
        (cause: unknown) => {
          throw asPromptError('chatTemplate', cause);
        },
      );
    }
    default:
      return prompt satisfies never;
  }
}

/**
 * The prompt's last tokens where it is truncated, checked against vocabulary and context.
 *
 * @param contextLimit longest sequence, prompt and reply together
 * @throws {EngineError} engine.invalid_request (empty, or an id outside the vocabulary), engine.context_too_long (no room for even one token)
 */
export function fitPrompt(
  request: GenerateRequest,
  encoded: readonly number[],
  vocabSize: number,
  contextLimit: number,
): readonly number[] {
  const ids = truncated(encoded, request, contextLimit);
  if (ids.length === 0) {
    throw new EngineError('engine.invalid_request', 'the prompt must have at least 1 token, got 0', {
      param: 'prompt',
    });
  }
  if (ids.length >= contextLimit) {
    throw new EngineError(
      'engine.context_too_long',
      `the context holds ${contextLimit} tokens and the prompt has ${ids.length}: shorten it to at most ${contextLimit - 1}`,
      { param: 'prompt' },
    );
  }
  const outside = ids.find((id) => !Number.isInteger(id) || id < 0 || id >= vocabSize);
  if (outside !== undefined) {
    throw new EngineError('engine.invalid_request', `token ids must be in [0, ${vocabSize}), got ${outside}`, {
      param: 'prompt',
    });
  }
  const { promptLogprobs } = request;
  if (typeof promptLogprobs === 'number' && !request.beamSearch) {
    const entries = ids.length * (promptLogprobs === -1 ? vocabSize : promptLogprobs + 1);
    const limit = REQUEST_LIMITS.promptLogprobEntries;
    if (entries > limit) {
      throw new EngineError(
        'engine.invalid_request',
        `promptLogprobs must give at most ${limit} entries in all, got ${entries} (${ids.length} prompt tokens): ask for fewer a token`,
        { param: 'promptLogprobs' },
      );
    }
  }
  return ids;
}

/** The beginning of a prompt is what is lost: its end is where the reply goes on. */
function truncated(ids: readonly number[], request: GenerateRequest, contextLimit: number): readonly number[] {
  const kept = request.truncatePromptTokens ?? null;
  if (kept === null) return ids;
  if (kept > contextLimit) {
    throw new EngineError(
      'engine.invalid_request',
      `truncatePromptTokens must be at most the context of ${contextLimit} tokens, got ${kept}`,
      { param: 'truncatePromptTokens' },
    );
  }
  const count = kept === -1 ? Math.max(1, contextLimit - (request.maxTokens ?? 1)) : kept;
  return ids.slice(Math.max(0, ids.length - count));
}

function checkOpenEnd({ continueFinalMessage = false, addGenerationPrompt = true, messages }: ChatPrompt): void {
  if (!continueFinalMessage) return;
  if (addGenerationPrompt) {
    throw new EngineError(
      'engine.invalid_request',
      'continueFinalMessage must come with addGenerationPrompt false: the last message cannot be left open and a new one begun',
      { param: 'continueFinalMessage' },
    );
  }
  if (messages.length === 0) {
    throw new EngineError('engine.invalid_request', 'continueFinalMessage must come with a message, got none', {
      param: 'continueFinalMessage',
    });
  }
}

/** @throws {EngineError} engine.template_failed, engine.context_too_long */
export function renderChat(prompt: ChatPrompt, template: EngineTemplate | null): Int32Array {
  if (template === null) {
    throw new EngineError('engine.template_failed', 'the model has no chat template: send token ids as the prompt', {
      param: 'messages',
    });
  }
  return attempt('messages', () => {
    const renderer = template.renderer(prompt.messages, {
      tools: prompt.tools,
      templateVariables: prompt.rendersAsTraining
        ? { ...defaultTemplateVariables(template.source), ...prompt.templateVariables }
        : prompt.templateVariables,
    });
    if (!prompt.continueFinalMessage)
      return renderer.encode(renderer.render(prompt.messages, prompt.addGenerationPrompt ?? true));
    const { sentinel } = renderer;
    const text = renderer.render([...prompt.messages.slice(0, -1), marked(prompt.messages.at(-1)!, sentinel)], false);
    const end = text.lastIndexOf(sentinel);
    if (end < 0) {
      throw new EngineError(
        'engine.template_failed',
        'continueFinalMessage needs the content of the last message in the prompt, and the chat template left it out',
        { param: 'continueFinalMessage' },
      );
    }
    return renderer.encode(text.slice(0, end));
  });
}

/** The message with its content right-trimmed and a sentinel behind it, in its last part where it has several. */
function marked(message: TemplateMessage, sentinel: string): TemplateMessage {
  const { content } = message;
  if (content === undefined || content === null) return { ...message, content: sentinel };
  if (typeof content === 'string') return { ...message, content: content.trimEnd() + sentinel };
  const parts = [...content];
  const last = parts.pop();
  if (last === undefined) return { ...message, content: sentinel };
  if (typeof last === 'string') return { ...message, content: [...parts, last.trimEnd() + sentinel] };
  const entries = Object.entries(last).map(([key, value]) =>
    key !== 'type' && typeof value === 'string' ? [key, value.trimEnd() + sentinel] : [key, value],
  );
  return { ...message, content: [...parts, Object.fromEntries(entries)] };
}

function attempt<Result>(param: string, task: () => Result): Result {
  try {
    return task();
  } catch (error) {
    throw asPromptError(param, error);
  }
}

function asPromptError(param: string, cause: unknown): EngineError {
  if (cause instanceof EngineError) return cause;
  const isTooLong = cause instanceof TokenizerError && cause.code === 'tokenizer.text_too_long';
  const message = cause instanceof Error ? cause.message : String(cause);
  return new EngineError(isTooLong ? 'engine.context_too_long' : 'engine.template_failed', message, { param, cause });
}
