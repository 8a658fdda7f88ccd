import type { ChatTemplate } from '../template/chat-template.ts';
import type { RenderOptions } from '../template/prompt-input.ts';
import type { PromptRenderer } from '../template/prompt-renderer.ts';
import type { TemplateMessage } from '../contract/template-message.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import type { Tokenizer } from '../encoding/tokenizer.ts';
import { type ChoiceItem, SequenceBuilder, type TrainingSequence } from './training-sequence.ts';

/**
 * A turn of a conversation. Assistant text that is not trained, such as a choice without logprobs, is a
 * `message`.
 */
export type HistoryItem = { kind: 'message'; message: TemplateMessage } | ChoiceItem;

interface OpenTurn {
  index: number; // of its item
  choice: ChoiceItem;
  prompt: string | null; // shielded text before it; null until needed
}

/** Prompt of a choice in training. */
interface PlacedPrompt {
  prompt: string | null; // shielded text; null if the ids are known
  promptIds: Int32Array;
  context: Int32Array | null; // ids after the current sequence; null if it does not continue
}

/**
 * Renders a conversation to the token sequences that it trains.
 *
 * A choice's prefix is the prompt of inference: its recorded ids, else the template's rendering of the messages
 * before, with generation prompt. Sampled ids stay unchanged (mask 1, with log-probability). An end token that
 * the template adds after a sampled one is dropped; after a choice cut by length the template's ending stays,
 * untrained. Text after the last choice is dropped.
 *
 * A sequence goes on while each prompt continues the previous one, including the sampled ids of the turn
 * between. Otherwise the next turn starts a branch with its full prompt: an earlier turn was rewritten
 * (reasoning dropped, blanks stripped, content edited, a tool call respelled) or tokenised differently, so the
 * model never saw the tokens it had sampled.
 *
 * If a prompt is unknown, the template's text between two choices is found by rendering again with a mark
 * instead of the earlier choice. This shows if that turn's text came back, but not its tokens; the sampled ones
 * stand in.
 *
 * @param options `addGenerationPrompt` has no effect
 * @returns an empty array if nothing is trainable
 * @throws {TokenizerError} `tokenizer.history_malformed` for token ids outside the vocabulary or a different
 * number of logprobs; as `ChatTemplate.render`
 */
export function renderHistory(
  template: ChatTemplate,
  items: readonly HistoryItem[],
  options: RenderOptions = {},
): TrainingSequence[] {
  return atOnce(historyTurns(template, items, options));
}

/** Steps of {@link renderHistory}, one choice each; the work grows with the square of the turns. */
export function* historyTurns(
  template: ChatTemplate,
  items: readonly HistoryItem[],
  options: RenderOptions = {},
): Generator<void, TrainingSequence[], void> {
  const messages = items.map(({ message }) => message);
  const renderer = template.renderer(messages, options);
  const textBefore = (index: number) => renderer.render(messages.slice(0, index), true);
  /** Null if the prompt does not continue the open turn. */
  const written = (index: number, open: OpenTurn | null): PlacedPrompt => {
    const prompt = textBefore(index);
    const promptIds = renderer.encodePrompt(prompt);
    if (open === null) return { prompt, promptIds, context: null };
    open.prompt ??= textBefore(open.index);
    const next = { messages: messages.slice(0, index), prompt };
    const between = textAfter({ ...open, prompt: open.prompt }, next, renderer, template);
    if (between === null) return { prompt, promptIds, context: null };
    return {
      prompt,
      promptIds,
      context: withoutRepeatedEnd(renderer.encode(between), open.choice, template.tokenizer),
    };
  };
  const sequences: SequenceBuilder[] = [];
  let open: OpenTurn | null = null;
  for (const [index, choice] of items.entries()) {
    if (choice.kind !== 'choice' || choice.tokenIds.length === 0) continue;
    checkChoice(choice, index, template.tokenizer);
    const { promptTokenIds: known } = choice;
    let sequence = sequences.at(-1);
    const { prompt, promptIds, context }: PlacedPrompt =
      known === undefined
        ? written(index, open)
        : { prompt: null, promptIds: known, context: sequence?.restOf(known) ?? null };
    if (sequence === undefined || context === null) {
      sequence = SequenceBuilder.behind(promptIds, sequences);
      sequences.push(sequence);
    } else sequence.addContext(context);
    sequence.addChoice(choice, promptIds);
    open = { index, choice, prompt };
    yield;
  }
  return sequences.map((builder) => builder.build());
}

export function atOnce<Result>(turns: Generator<void, Result, void>): Result {
  for (;;) {
    const { done, value } = turns.next();
    if (done) return value;
  }
}

/**
 * Text of the template after the open turn, up to the end of `prompt`.
 *
 * @returns null if the template changed the turn or the text before it
 */
function textAfter(
  open: OpenTurn & { prompt: string },
  { messages, prompt }: { readonly messages: readonly TemplateMessage[]; readonly prompt: string },
  renderer: PromptRenderer,
  { tokenizer }: ChatTemplate,
): string | null {
  const { tool_calls: _calls, reasoning: _reasoning, reasoning_content: _content, ...rest } = open.choice.message;
  const marked = renderOrNull(
    renderer,
    messages.with(open.index, { ...rest, role: open.choice.message.role, content: renderer.sentinel }),
  );
  const start = open.prompt + renderer.sentinel;
  if (marked === null || !marked.startsWith(start)) return null;
  const between = marked.slice(start.length);
  if (between.includes(renderer.sentinel)) return null;
  const seenLength = prompt.length - open.prompt.length - between.length;
  if (seenLength < 0 || !prompt.startsWith(open.prompt) || !prompt.endsWith(between)) return null;
  const seen = renderer.restore(prompt.slice(open.prompt.length, open.prompt.length + seenLength)).trim();
  const sampled = tokenizer.decode(withoutEnd(open.choice.tokenIds, tokenizer), { skipSpecial: true }).trim();
  return seen === sampled || isSpelledToolCall(open.choice.message, seen, sampled) ? between : null;
}

/** A template may refuse the marked conversation (a tool's answer without its call). */
function renderOrNull(renderer: PromptRenderer, messages: readonly TemplateMessage[]): string | null {
  try {
    return renderer.render(messages, true);
  } catch (error) {
    if (error instanceof TokenizerError && error.code === 'tokenizer.template_failed') return null;
    throw error;
  }
}

/** True if the template respelled the parsed calls. Reasoning before them must still be there, if there was any. */
function isSpelledToolCall(message: TemplateMessage, seen: string, sampled: string): boolean {
  const calls = message['tool_calls'];
  if (!Array.isArray(calls) || calls.length === 0 || seen === '') return false;
  return reasoningOf(seen) === reasoningOf(sampled);
}

function reasoningOf(text: string): string {
  const end = text.lastIndexOf('</think>');
  return end < 0 ? '' : text.slice(0, end).replace('<think>', '').trim();
}

function withoutEnd(tokenIds: Int32Array, tokenizer: Tokenizer): Int32Array {
  const last = tokenIds.at(-1);
  return last !== undefined && tokenizer.endTokenIds.has(last) ? tokenIds.subarray(0, -1) : tokenIds;
}

function withoutRepeatedEnd(context: Int32Array, choice: ChoiceItem, tokenizer: Tokenizer): Int32Array {
  const last = choice.tokenIds.at(-1);
  return last !== undefined && last === context[0] && tokenizer.endTokenIds.has(last) ? context.subarray(1) : context;
}

function checkChoice(choice: ChoiceItem, index: number, tokenizer: Tokenizer): void {
  const { tokenIds, logprobs } = choice;
  if (logprobs.length !== tokenIds.length) {
    const message = `item ${index} has ${tokenIds.length} token ids and ${logprobs.length} logprobs: there must be one for each`;
    throw new TokenizerError('tokenizer.history_malformed', message);
  }
  for (const id of [tokenIds, choice.promptTokenIds ?? []].flatMap((ids) => [...ids])) {
    if (id >= 0 && id < tokenizer.vocabSize) continue;
    const message = `item ${index} has the token id ${id}; the vocabulary has ids in [0, ${tokenizer.vocabSize})`;
    throw new TokenizerError('tokenizer.history_malformed', message);
  }
}
