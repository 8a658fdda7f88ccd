/** Choices with recorded prompts: each is trained after the ids of its prompt, regardless of earlier samples. */
import fc from 'fast-check';
import { expect, test } from 'vitest';

import { ChatTemplate, type HistoryItem, renderHistory, type TemplateMessage, Tokenizer } from '../index.ts';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';
import { CHATML, THINKING } from '../testing/test-templates.ts';
import type { ChoiceItem, TrainingSequence } from './training-sequence.ts';

// `ab` is one token when the template writes it, and may have been sampled as two.
const vocabulary = new ByteVocabulary({ userDefinedTokens: ['ab', '<think>', '</think>'] });
const tokenizer = new Tokenizer(vocabulary);
const templates = [new ChatTemplate(tokenizer, CHATML), new ChatTemplate(tokenizer, THINKING)] as const;
const [chatml] = templates;
const END = vocabulary.idOf('<|im_end|>');

const user = (content: string): HistoryItem => ({ kind: 'message', message: { role: 'user', content } });
const bytesOf = (text: string) => [...Buffer.from(text)];

function sampledAfter(
  before: readonly HistoryItem[],
  ids: readonly number[],
  message: Partial<TemplateMessage>,
  template: ChatTemplate = chatml,
): ChoiceItem {
  return {
    kind: 'choice',
    message: { role: 'assistant', ...message },
    tokenIds: Int32Array.from(ids),
    logprobs: Float32Array.from(ids, (_, index) => -(index + 1) / 64),
    promptTokenIds: template.render(before.map((item) => item.message)).tokenIds,
  };
}

const numTrained = ({ lossMask }: TrainingSequence) => lossMask.filter((flag) => flag === 1).length;

test('a turn whose prompt continues the sampled tokens stays in the history, and nothing is rendered for it', () => {
  const first = [user('a')];
  const one = sampledAfter(first, [...bytesOf('yes'), END], { content: 'yes' });
  const second = [...first, one, user('b')];
  const two = sampledAfter(second, [...bytesOf('no'), END], { content: 'no' });
  const [sequence, ...others] = renderHistory(chatml, [...second, two]);
  expect(others).toEqual([]);
  expect(sequence!.tokenIds).toEqual(Int32Array.of(...two.promptTokenIds!, ...two.tokenIds));
  expect(sequence).toMatchObject({ numChoices: 2, numDivergentPrompts: 0, numBranchTokens: null });
});

test('stripped blanks, other token borders, a truncated reply: a branch if the ids differ, else none', () => {
  const cases: [ids: number[], content: string, numSequences: number][] = [
    [[...bytesOf('yes'), 32, 32, END], 'yes', 2],
    [[97, 98, END], 'ab', 2],
    [[vocabulary.idOf('ab'), END], 'ab', 1],
    [bytesOf('cut of'), 'cut of', 1],
    [[...bytesOf('stop'), 10], 'stop', 2],
  ];
  for (const [ids, content, numSequences] of cases) {
    const first = [user('a')];
    const one = sampledAfter(first, ids, { content });
    const second = [...first, one, user('b')];
    const two = sampledAfter(second, [...bytesOf('no'), END], { content: 'no' });
    const third = [...second, two, user('c')];
    const three = sampledAfter(third, [...bytesOf('so'), END], { content: 'so' });
    const sequences = renderHistory(chatml, [...third, three]);
    expect(sequences, content).toHaveLength(numSequences);
    // The third turn continues the second, in either history.
    expect(sequences.map(({ numChoices }) => numChoices)).toEqual(numSequences === 1 ? [3] : [1, 2]);
    const last = sequences.at(-1)!;
    expect(last.tokenIds).toEqual(Int32Array.of(...three.promptTokenIds!, ...three.tokenIds));
    expect(sequences.map(numTrained).reduce((sum, count) => sum + count)).toBe(ids.length + 6);
    if (numSequences === 1) continue;
    // Both share the first prompt, and the equal start of the reply.
    const [main] = sequences as [TrainingSequence, TrainingSequence];
    const shared = last.tokenIds.findIndex((id, place) => id !== main.tokenIds[place]);
    expect(last.numBranchTokens).toBe(two.promptTokenIds!.length - shared);
  }
});

test('a turn without its prompt continues one that has it', () => {
  const first = [user('a')];
  const one = sampledAfter(first, [97, 98, END], { content: 'ab' });
  const { promptTokenIds: _unknown, ...two } = sampledAfter([...first, one, user('b')], [110, END], { content: 'n' });
  const sequences = renderHistory(chatml, [...first, one, user('b'), two]);
  expect(sequences).toMatchObject([{ numChoices: 2, numDivergentPrompts: 1, numBranchTokens: null }]);
});

test('any conversation: every sampled token is trained once, after exactly the prompt of its turn', () => {
  // Sampled text, and the part that the client sends back.
  const piece = fc.constantFrom('a', 'b', ' ', '\n', '<think>', 'x</think>', 'é', '<', '|im_end|>', '"k":1');
  const turn = fc.record({
    question: fc.array(piece, { maxLength: 4 }).map((pieces) => pieces.join('')),
    pieces: fc.array(piece, { minLength: 1, maxLength: 8 }),
    isCut: fc.boolean(),
    isMerged: fc.boolean(),
    edit: fc.constantFrom('none', 'none', 'trim', 'shorten'),
    hasRecord: fc.boolean(),
  });
  let numBranches = 0;
  fc.assert(
    fc.property(
      fc.array(turn, { minLength: 1, maxLength: 6 }),
      fc.constantFrom(...templates),
      fc.boolean(),
      (turns, template, haveAllRecords) => {
        const items: HistoryItem[] = [];
        for (const { question, pieces, isCut, isMerged, edit, hasRecord } of turns) {
          items.push(user(question));
          const text = pieces.join('');
          const ids = [...(isMerged ? tokenizer.encode(text) : bytesOf(text)), ...(isCut ? [] : [END])];
          const content = { none: text, trim: text.trim(), shorten: text.slice(1) }[edit];
          const choice = sampledAfter(items, ids, { content }, template);
          if (!haveAllRecords && !hasRecord) delete choice.promptTokenIds;
          items.push(choice);
        }
        const choices = items.filter((item) => item.kind === 'choice');
        const sequences = renderHistory(template, items);
        const placed = sequences.flatMap((sequence) => sequence.choices.map((place) => ({ sequence, ...place })));
        expect(placed.map(({ choice }) => choice)).toEqual(choices);
        for (const { sequence, start, choice } of placed) {
          const end = start + choice.tokenIds.length;
          if (choice.promptTokenIds !== undefined)
            expect(sequence.tokenIds.subarray(0, start)).toEqual(choice.promptTokenIds);
          expect(sequence.tokenIds.subarray(start, end)).toEqual(choice.tokenIds);
          expect(sequence.oldLogprobs.subarray(start, end)).toEqual(choice.logprobs);
          expect(sequence.lossMask.subarray(start, end).every((flag) => flag === 1)).toBe(true);
        }
        // No other tokens are trained.
        const numSampled = choices.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
        expect(sequences.reduce((sum, sequence) => sum + numTrained(sequence), 0)).toBe(numSampled);
        expect(sequences.map(({ numBranchTokens }) => numBranchTokens === null)).toEqual(
          sequences.map((_, index) => index === 0),
        );
        numBranches += sequences.length - 1;
      },
    ),
    { numRuns: 200 },
  );
  console.log(`${numBranches} branches in 200 conversations`);
  expect(numBranches).toBeGreaterThan(50);
});
