import type { ChatTemplate } from '../template/chat-template.ts';
import type { RenderOptions } from '../template/prompt-input.ts';
import type { PromptRenderer } from '../template/prompt-renderer.ts';
import type { TemplateMessage } from '../contract/template-message.ts';
import { TokenizerError } from '../contract/tokenizer-error.ts';
import type { Tokenizer } from '../encoding/tokenizer.ts';
import { type ChoiceItem, SequenceBuilder, type TrainingSequence } from './training-sequence.ts';

/** A turn of a conversation. A choice without logprobs, like any other assistant text that is not trained, is a `message`. */
export type HistoryItem = { kind: 'message'; message: TemplateMessage } | ChoiceItem;

/** The turn at the end of the sequence being built. */
interface OpenTurn {
  index: number; // of its item
  choice: ChoiceItem;
  prompt: string | null; // shielded text in front of it; null while nobody needed it
}

/** The prompt that a choice is trained behind. */
interface PlacedPrompt {
  prompt: string | null; // shielded text; null where the ids are known
  promptIds: Int32Array;
  context: Int32Array | null; // those behind the sequence being built; null where it does not go on
}

/**
 * A conversation → the token sequences it trains.
 *
 * The prefix of a choice is the prompt inference used: its own ids where they are known, else the template's rendering of the messages
 * before, generation prompt included. Sampled ids stand as they are (mask 1, their log-probability). An end token the template adds after
 * one that was sampled is left out; after a choice cut by length the template's closing stays, untrained. What follows the last choice is
 * cut off.
 *
 * One sequence holds the whole conversation as long as each prompt continues the one before, ids of the turn in between as they were
 * sampled. It ends, and the next turn starts its own with its full prompt, a branch, where that is not so: the template or the client
 * rewrote an earlier turn (reasoning dropped, blanks stripped, content edited, a tool call spelled in the template's way), or its text was
 * cut into other tokens when it was written again. There the model never saw the tokens it had sampled.
 *
 * Where a prompt is not known, what the template writes between two choices is found by rendering the conversation once more with a mark
 * in place of the earlier choice, so nothing is ever searched for by its text. Whether the text of that turn came back is known then, but
 * not the tokens it was cut into: the sampled ones stand for them.
 *
 * @param options `addGenerationPrompt` has no effect
 * @returns empty when nothing is trainable
 * @throws {TokenizerError} `tokenizer.history_malformed` for token ids outside the vocabulary or a different number of logprobs; as
 *   `ChatTemplate.render`
 */
export function renderHistory(
  template: ChatTemplate,
  items: readonly HistoryItem[],
  options: RenderOptions = {},
): TrainingSequence[] {
  return atOnce(historyTurns(template, items, options));
}

/** The work of {@link renderHistory}, which grows with the square of the turns, a choice at a time. */
export function* historyTurns(
  template: ChatTemplate,
  items: readonly HistoryItem[],
  options: RenderOptions = {},
): Generator<void, TrainingSequence[], void> {
  const messages = items.map(({ message }) => message);
  const renderer = template.renderer(messages, options);
  const textBefore = (index: number) => renderer.render(messages.slice(0, index), true);
  /** The prompt of a choice as the template writes it, and what of it stands behind the open turn; null where it does not continue that. */
  const written = (index: number, open: OpenTurn | null): PlacedPrompt => {
    const prompt = textBefore(index);
    const promptIds = renderer.encodePrompt(prompt);
    if (open === null) return { prompt, promptIds, context: null };
    open.prompt ??= textBefore(open.index);
    const between = textAfter({ ...open, prompt: open.prompt }, messages.slice(0, index), prompt, renderer, template);
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

/** Work that comes in turns, without a pause. */
export function atOnce<Result>(turns: Generator<void, Result, void>): Result {
  for (;;) {
    const { done, value } = turns.next();
    if (done) return value;
  }
}

/**
 * The text that the template writes after the open turn up to the end of `prompt`, if `prompt` continues that turn.
 * @returns null when it does not: the template changed what stands before the turn, or the turn itself
 */
function textAfter(
  open: OpenTurn & { prompt: string },
  messages: readonly TemplateMessage[],
  prompt: string,
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

/** A template that refuses the marked conversation (a tool's answer without its call) cannot be followed, which is no error. */
function renderOrNull(renderer: PromptRenderer, messages: readonly TemplateMessage[]): string | null {
  try {
    return renderer.render(messages, true);
  } catch (error) {
    if (error instanceof TokenizerError && error.code === 'tokenizer.template_failed') return null;
    throw error;
  }
}

/** The template wrote the parsed calls in its own way. Reasoning in front of them must still be there, if there was any. */
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
