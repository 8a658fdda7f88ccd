import type { ToolFormat } from '@trainyard/tokenizer';
import type { TextTokenizer } from '../contract/text-tokenizer.ts';
import {
  asPromptError,
  canRender,
  type EngineTemplate,
  renderChat,
  type RenderedChat,
  type TemplateSandbox,
} from './chat.ts';
import { checkPromptIds, refusal } from '@trainyard/backend';
import { naming } from '@trainyard/protocol/fields';
import type { GenerateRequest } from '../contract/generate-request.ts';
import type { LongTexts } from './long-texts.ts';
import { type ReplyTraits, replyTraits } from './reply-traits.ts';

/** Ids that the vocabulary adds around a text, such as a beginning-of-sequence token. */
export interface PromptBorders {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

export interface PromptParts {
  tokenizer: TextTokenizer;
  /** null refuses chat prompts; token ids still work. */
  template: EngineTemplate | null;
  /** null refuses templates of requests. */
  templateSandbox: TemplateSandbox | null;
  borders: PromptBorders;
  /** Maker of long prompts; null: the calling thread makes all. */
  longTexts: Pick<LongTexts, 'encode' | 'render'> | null;
  /** Format of tool calls, overriding the template; null = as in the template. */
  toolFormat: ToolFormat | null;
}

/** A prompt before truncation. */
export interface EncodedPrompt {
  readonly ids: readonly number[];
  /** Format of replies to a conversation; null for other prompts. */
  readonly replyTraits: ReplyTraits | null;
}

/**
 * Encodes a prompt, asynchronously if it is made on another thread.
 *
 * @param options `longTexts` makes this prompt, unless it is token ids; null: the calling thread does
 * @throws {EngineError} engine.template_failed, context_length_exceeded, engine.invalid_request
 */
export function encodePrompt(
  { prompt, tenant }: Pick<GenerateRequest, 'prompt' | 'tenant'>,
  parts: Omit<PromptParts, 'longTexts'>,
  { longTexts, signal }: Pick<PromptParts, 'longTexts'> & { signal: AbortSignal },
): EncodedPrompt | Promise<EncodedPrompt> {
  const within = (ids: ArrayLike<number>, hasBorders: boolean) => promptIds(ids, hasBorders ? parts.borders : null);
  const use = { tenant, signal };
  switch (prompt.kind) {
    case 'tokens':
      return { ids: Array.from(prompt.tokenIds), replyTraits: null };
    case 'text': {
      const finish = (ids: Int32Array): EncodedPrompt => ({
        ids: within(ids, prompt.addSpecialTokens),
        replyTraits: null,
      });
      if (longTexts === null) return finish(encodeText(prompt.text, parts.tokenizer));
      return longTexts.encode(prompt.text, use).then(finish, (error: unknown) => {
        throw asPromptError('prompt', error);
      });
    }
    case 'chat': {
      const finish = (rendered: RenderedChat): EncodedPrompt => ({
        ids: within(rendered.tokenIds, prompt.addSpecialTokens),
        replyTraits: replyTraits({ ...rendered, toolFormat: parts.toolFormat ?? rendered.toolFormat }, parts.tokenizer),
      });
      const rendered =
        longTexts !== null && canRender(prompt, parts)
          ? longTexts.render(prompt, use)
          : renderChat(prompt, parts, signal);
      return rendered instanceof Promise ? rendered.then(finish) : finish(rendered);
    }
    default:
      return prompt satisfies never;
  }
}

/**
 * Ids of a prompt, within its borders unless those are null. Copies by index, because iterators take ten
 * times as long for a few hundred.
 */
export function promptIds(ids: ArrayLike<number>, borders: PromptBorders | null): number[] {
  const all: number[] = [];
  for (const part of [borders?.before ?? [], ids, borders?.after ?? []])
    for (let at = 0; at < part.length; at++) all.push(part[at]!);
  return all;
}

function encodeText(text: string, tokenizer: TextTokenizer): Int32Array {
  try {
    return tokenizer.encodeWithSpecial(text);
  } catch (error) {
    throw asPromptError('prompt', error);
  }
}

/**
 * Returns the prompt's last tokens if it is truncated, checked against vocabulary and context.
 *
 * @param contextLimit maximum length of prompt and reply together
 * @throws {EngineError} as {@link checkPromptIds}; engine.invalid_request if it keeps more than fits
 */
export function fitPrompt(
  request: GenerateRequest,
  encoded: readonly number[],
  vocabSize: number,
  contextLimit: number,
): readonly number[] {
  const ids = truncated(encoded, request, contextLimit);
  checkPromptIds(request, ids, vocabSize, contextLimit);
  return ids;
}

function truncated(ids: readonly number[], request: GenerateRequest, contextLimit: number): readonly number[] {
  const kept = request.truncatePromptTokens;
  if (kept === null) return ids;
  const name = { field: 'truncatePromptTokens' } as const;
  if (kept === 0 || kept > contextLimit)
    throw refusal(name.field, naming`${name} must be -1 or in [1, ${contextLimit}] (the context), got ${kept}`);
  if (kept === contextLimit && ids.length >= contextLimit)
    throw refusal(
      name.field,
      naming`${name} of ${kept} leaves no room in the context for a reply: send at most ${contextLimit - 1}, or -1`,
    );
  const count = kept === -1 ? Math.max(1, contextLimit - (request.maxTokens ?? 1)) : kept;
  if (request.truncationSide === 'right') return ids.slice(0, count);
  return ids.slice(Math.max(0, ids.length - count));
}
