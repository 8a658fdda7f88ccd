import type { ChatTemplate } from '../template/chat-template.ts';
import type { PromptRenderer } from '../template/prompt-renderer.ts';
import { atOnce, historyTurns, type HistoryItem } from './render-history.ts';
import type { TemplateMessage } from '../contract/template-message.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import type { Tokenizer } from '../encoding/tokenizer.ts';
import type { TrainingSequence } from './training-sequence.ts';

export interface SupervisedOptions {
  /** Default: none. */
  tools?: readonly unknown[] | null;
  /** Variables of the template. Default: none. */
  templateVariables?: Readonly<Record<string, unknown>>;
  /** Trained assistant turns: all or only the last; never those with `weight` 0. */
  assistantTurns: 'all' | 'last';
}

/**
 * Renders a written conversation to the token sequences that it trains, as if its assistant turns were sampled.
 *
 * A turn is the template's text from the turn's opening through its first end token, as a sampler would produce
 * it. Everything else is as in `renderHistory`; log-probabilities are NaN.
 *
 * @returns an empty array if no assistant turn is trained
 * @throws {TokenizerError} `tokenizer.history_malformed` if the template writes a turn without a recognisable
 * beginning; as `ChatTemplate.render`
 */
export function renderSupervised(
  template: ChatTemplate,
  messages: readonly TemplateMessage[],
  options: SupervisedOptions,
): TrainingSequence[] {
  return atOnce(supervisedTurns(template, messages, options));
}

/** Steps of {@link renderSupervised}, one turn each; the work grows with the square of the turns. */
export function* supervisedTurns(
  template: ChatTemplate,
  messages: readonly TemplateMessage[],
  options: SupervisedOptions,
): Generator<void, TrainingSequence[], void> {
  const { tools = null, templateVariables = {}, assistantTurns } = options;
  const renderer = template.renderer(messages, { tools, templateVariables });
  const last = messages.findLastIndex(isAssistant);
  const items: HistoryItem[] = [];
  for (const [index, message] of messages.entries()) {
    const isTrained = isAssistant(message) && message['weight'] !== 0 && (assistantTurns === 'all' || index === last);
    if (isTrained) {
      items.push({ kind: 'choice', message, ...turnAt(index, messages, renderer, template.tokenizer) });
      yield;
    } else items.push({ kind: 'message', message });
  }
  return yield* historyTurns(template, items, { tools, templateVariables });
}

function turnAt(index: number, messages: readonly TemplateMessage[], renderer: PromptRenderer, tokenizer: Tokenizer) {
  const before = messages.slice(0, index);
  const written = renderer.render(messages.slice(0, index + 1), false);
  const prompt = renderer.render(before, true);
  const opening = written.startsWith(prompt) ? prompt : openingOf(before, written, renderer);
  if (opening === null) {
    const message = `message ${index}: in the chat template's text, the start of this assistant turn cannot be separated from its content`;
    throw new TokenizerError('tokenizer.history_malformed', message);
  }
  const tokenIds = untilEnd(renderer.encode(written.slice(opening.length)), tokenizer);
  const logprobs = new Float32Array(tokenIds.length).fill(Number.NaN);
  // A prompt with empty, closed reasoning is the one an answer without reasoning will be sampled after, however
  // the template writes that answer later.
  const hasReasoning = written.startsWith(`${opening}<think>`);
  const isAsSampled = !hasReasoning && prompt.startsWith(opening) && prompt.trimEnd().endsWith('</think>');
  return { tokenIds, logprobs, promptTokenIds: renderer.encodePrompt(isAsSampled ? prompt : opening) };
}

/** Text before a turn's content if it is not the generation prompt, found with a mark as content. */
function openingOf(before: readonly TemplateMessage[], written: string, renderer: PromptRenderer): string | null {
  const marked = renderer.render([...before, { role: 'assistant', content: renderer.sentinel }], false);
  const end = marked.indexOf(renderer.sentinel);
  const opening = marked.slice(0, Math.max(end, 0));
  return end >= 0 && written.startsWith(opening) ? opening : null;
}

function untilEnd(tokenIds: Int32Array, tokenizer: Tokenizer): Int32Array {
  const end = tokenIds.findIndex((id) => tokenizer.endTokenIds.has(id));
  return end < 0 ? tokenIds : tokenIds.subarray(0, end + 1);
}

function isAssistant({ role }: TemplateMessage): boolean {
  return role === 'assistant';
}
