import {
  type ChatTemplate,
  type HistoryItem,
  type RenderOptions,
  renderHistory,
  renderSupervised,
  type TemplateMessage,
} from '../index.ts';

/** Replies of one conversation, with their prompts in training and sampling. */
export interface ComparedPrompts {
  readonly numReplies: number;
  /** Histories after the first: a prompt that does not continue the previous one starts another. */
  readonly numBranches: number;
  /** Prompts for which a job warns that others may have been sampled. */
  readonly numReported: number;
  /** Empty if all prompts are equal. */
  readonly different: readonly string[];
}

/**
 * Trains a conversation with unknown prompts, and compares the tokens before each reply with a chat's prompt
 * there.
 *
 * @throws {TokenizerError} if the template refuses the conversation, or the part before a reply
 */
export function comparePrompts(
  template: ChatTemplate,
  messages: readonly TemplateMessage[],
  { tools, templateVariables }: Pick<RenderOptions, 'tools' | 'templateVariables'> = {},
): ComparedPrompts {
  const given = { tools: tools ?? null, templateVariables: templateVariables ?? {} };
  const written = renderSupervised(template, messages, { ...given, assistantTurns: 'all' });
  const tokensOf = new Map(
    written.flatMap(({ choices }) => choices.map(({ choice }) => [choice.message, choice.tokenIds])),
  );
  const items = messages.map((message): HistoryItem => {
    const tokenIds = tokensOf.get(message);
    if (tokenIds === undefined) return { kind: 'message', message };
    return { kind: 'choice', message, tokenIds, logprobs: new Float32Array(tokenIds.length) };
  });
  const sequences = renderHistory(template, items, given);
  const trained = sequences.flatMap(({ tokenIds, choices }) => choices.map(({ start }) => tokenIds.slice(0, start)));
  const places = messages.flatMap((message, index) => (tokensOf.has(message) ? [index] : []));
  const different: string[] = [];
  for (const [number, index] of places.entries()) {
    const sampled = template.render(messages.slice(0, index), given).tokenIds;
    if (equal(sampled, trained[number]!)) continue;
    const text = (ids: Int32Array) => JSON.stringify(template.tokenizer.decode(ids.subarray(-200)));
    different.push(`reply ${number}: sampled after ${text(sampled)}, trained after ${text(trained[number]!)}`);
  }
  return {
    numReplies: places.length,
    numBranches: Math.max(0, sequences.length - 1),
    numReported: sequences.reduce((sum, { numDivergentPrompts }) => sum + numDivergentPrompts, 0),
    different,
  };
}

function equal(first: Int32Array, second: Int32Array): boolean {
  return first.length === second.length && first.every((id, at) => id === second[at]);
}
