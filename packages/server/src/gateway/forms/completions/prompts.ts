import { checkPromptLength, checkVocabulary } from '@trainyard/backend';
import { type CompletionRequest, quoting } from '@trainyard/protocol';

import type { ModelInference } from '../../../seams/contract/backends.ts';
import { refusingAsBackend } from '../../../seams/faults/backend-failure.ts';
import { conflict, named } from '../shared/conflict.ts';

/** A prompt for the engine, and its echo. */
export interface CompletionPrompt {
  /** Truncated if the request asks for it. */
  tokenIds: readonly number[];
  /** Its text; null without `echo`. */
  echo: string | null;
}

interface PromptModel {
  readonly model: { readonly base: { readonly contextLength: number; readonly vocabSize: number } };
  readonly inference: ModelInference;
}

/**
 * Prompts of a request as ids, in order.
 * @param maxTokens of each reply
 * @throws {RequestError} `request.conflict`
 * @throws {BackendFailure} `context_length_exceeded` and `engine.invalid_request` for a prompt that cannot
 * run, before any of them runs
 */
export async function readPrompts(
  body: CompletionRequest,
  maxTokens: number,
  { model, inference }: PromptModel,
  signal: AbortSignal,
): Promise<CompletionPrompt[]> {
  const { contextLength, vocabSize } = model.base;
  const read = async (prompt: string | number[]): Promise<CompletionPrompt> => {
    const isText = typeof prompt === 'string';
    const whole = isText ? await tokenize(prompt, body, inference, signal) : prompt;
    const tokenIds = truncated(whole, body, contextLength, maxTokens);
    // Checks now, because the engine would refuse only once it reaches this prompt.
    refusingAsBackend(() => {
      checkPromptLength(tokenIds, contextLength);
      checkVocabulary(tokenIds, vocabSize);
    });
    if (!body.echo) return { tokenIds, echo: null };
    const isWhole = tokenIds.length === whole.length;
    return { tokenIds, echo: isText && isWhole ? prompt : await inference.detokenize(tokenIds, { signal }) };
  };
  return Promise.all(promptsOf(body).map(read));
}

async function tokenize(
  text: string,
  { add_special_tokens: addSpecialTokens = true }: CompletionRequest,
  inference: ModelInference,
  signal: AbortSignal,
): Promise<readonly number[]> {
  const { tokenIds } = await inference.tokenize({ kind: 'text', text, addSpecialTokens }, { withTexts: false, signal });
  return tokenIds;
}

function promptsOf({ prompt }: CompletionRequest): (string | number[])[] {
  if (typeof prompt === 'string') return [prompt];
  return isIdList(prompt) ? [prompt] : prompt;
}

function isIdList(prompt: string[] | number[] | number[][]): prompt is number[] {
  return typeof prompt[0] === 'number';
}

/** Runs before the length check, because truncation makes prompts fit. */
function truncated(
  ids: readonly number[],
  { truncate_prompt_tokens: kept = null, truncation_side: side }: CompletionRequest,
  contextLength: number,
  maxTokens: number,
): readonly number[] {
  if (kept === null) return ids;
  const field = named('truncate_prompt_tokens');
  if (kept === 0 || kept > contextLength)
    throw conflict(field, quoting`${field} must be -1 or in [1, ${contextLength}] (the context), got ${kept}`);
  if (kept === contextLength && ids.length >= contextLength)
    throw conflict(
      field,
      quoting`${field} of ${kept} leaves no room in the context for a reply: send at most ${contextLength - 1}, or -1`,
    );
  const count = kept === -1 ? Math.max(1, contextLength - maxTokens) : kept;
  return side === 'right' ? ids.slice(0, count) : ids.slice(Math.max(0, ids.length - count));
}
