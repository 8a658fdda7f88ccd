import type { ConstraintSpec } from '@trainyard/constraints';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Harness } from '../testing/text-harness.ts';
import { OPENED, prompt, reading, ReplyHarness, sum, TURNS } from '../testing/reply-harness.ts';
import type { ReplyOptions } from '../testing/reply-harness.ts';

let harness: ReplyHarness;
/** Harness in which think tags are several tokens. */
let spelled: ReplyHarness;
beforeAll(async () => {
  harness = await ReplyHarness.create();
  spelled = await ReplyHarness.create([]);
});
afterAll(() => {
  harness.close();
  spelled.close();
});

const THOUGHT = 'abcdefgh</think>Yes.';
const thinking = (thinkingTokenBudget: number | null, options: ReplyOptions = {}): ReplyOptions => ({
  reply: reading({ toolChoice: 'none' }),
  thinkingTokenBudget,
  ...options,
});
/** The forced end marker replaces a token that the model would have written. */
const limited = (text: string, budget: number): string => `${text.slice(0, budget)}|${text.slice(budget + 1)}`;
const parts = (transcript: Parameters<typeof sum>[0]): string => {
  const { reasoning, content } = sum(transcript);
  return `${reasoning}|${content}`;
};

describe('a thinking budget', () => {
  test.each([0, 1, 3, 7])('of %i tokens limits a block that the reply opens', (budget) => {
    const answer = harness.reply(`<think>${THOUGHT}`, thinking(budget));
    expect(parts(answer)).toBe(limited(THOUGHT, budget));
    expect(answer.completed?.usage.reasoningTokens).toBe(budget);
  });

  test.each([0, 1, 3, 7])('of %i tokens limits a block that the prompt has opened', (budget) => {
    expect(parts(harness.reply(THOUGHT, thinking(budget), OPENED))).toBe(limited(THOUGHT, budget));
  });

  test('that is not used up changes nothing, and none is any number', () => {
    for (const budget of [8, 100, null]) {
      const answer = harness.reply(`<think>${THOUGHT}`, thinking(budget));
      expect(answer.text()).toBe(`<think>${THOUGHT}`);
      expect(answer.tokenIds()).toHaveLength(15);
    }
  });

  test('counts from the block on, after any white space, and only the first block', () => {
    const answer = harness.reply('\n <think>abc</think>x<think>defgh', thinking(3));
    expect(answer.text()).toBe('\n <think>abc</think>x<think>defgh');
    expect(harness.reply('\n <think>abcd</think>x', thinking(3)).text()).toBe('\n <think>abc</think></think>x');
  });

  test('does not change replies without reasoning', () => {
    expect(harness.reply('Hm.<think>abc', thinking(0)).text()).toBe('Hm.<think>abc');
    const closed = { prompt: prompt({ enable_thinking: false }) };
    expect(harness.reply('<think>abc', thinking(0, closed)).text()).toBe('<think>abc');
    // Without think blocks in the template the model has no reasoning.
    expect(harness.reply('<think>abc', thinking(0), TURNS).text()).toBe('<think>abc');
  });

  test('writes a marker of several tokens whole, and continues one that the model has started', () => {
    // The marker replaces eight tokens here, those of `defgh</t`.
    expect(parts(spelled.reply(`<think>${THOUGHT}`, thinking(3)))).toBe('abc|hink>Yes.');
    const begun = spelled.reply('<think>ab</thirsty and more</think>', thinking(6));
    expect(begun.text()).toBe('<think>ab</think>y and more</think>');
  });

  test('overrides masks that would exclude the marker', () => {
    const id = harness.idOf('</think>');
    const masks: ReplyOptions[] = [
      { allowedTokenIds: [...Buffer.from('abcdefghYes.'), harness.idOf('<think>')] },
      { badWords: ['</think>'] },
      { sampling: { logitBias: [[id, -100]] } },
      { sampling: { temperature: 2, topK: 1, seed: 3n } },
    ];
    for (const options of masks)
      expect(harness.reply(`<think>${THOUGHT}`, thinking(3, options)).tokenIds()[4]).toBe(id);
  });

  test('is in no raw log-probability, and in every processed one', () => {
    const raw = harness.reply(`<think>${THOUGHT}`, thinking(3, { logprobs: 0 })).logprobs()[4];
    const processed = harness
      .reply(`<think>${THOUGHT}`, thinking(3, { logprobs: 2, logprobsMode: 'processed' }))
      .logprobs()[4];
    // The model preferred another token by 50.
    expect(raw?.logprob).toBeCloseTo(-50, 4);
    expect(processed?.top.map(({ logprob }) => logprob)).toEqual([0, -9999]);
  });

  test('lets a constraint start after the marker', () => {
    const constraint: ConstraintSpec = { kind: 'choice', choices: ['yes', 'no'] };
    for (const [text, source] of [
      [`<think>${THOUGHT}`, undefined],
      [THOUGHT, OPENED],
    ] as const) {
      const { reasoning, content } = sum(harness.reply(text, thinking(3, { constraint }), source));
      expect(reasoning).toBe('abc');
      expect(content).toMatch(/^(yes|no)$/);
    }
  });

  test('with the marker as a stop string ends the reply', () => {
    const answer = harness.reply(THOUGHT, thinking(3, { stop: ['</think>'] }), OPENED);
    expect(answer.text()).toBe('abc');
    expect(answer.finished()).toMatchObject({ finishReason: 'stop', stopReason: '</think>' });
  });

  test('waits for minTokens only if the marker would end the reply', () => {
    const id = harness.idOf('</think>');
    const stopping = thinking(3, { stopTokenIds: [id], minTokens: 5 });
    const ended = harness.reply(THOUGHT, stopping, OPENED);
    expect(ended.text()).toBe('abcde');
    expect(ended.finished()?.stopReason).toBe(id);
    expect(parts(harness.reply(THOUGHT, thinking(3, { minTokens: 5 }), OPENED))).toBe(limited(THOUGHT, 3));
  });

  test('is each choice’s own', () => {
    const options = thinking(3, { n: 3, sampling: { temperature: 1, seed: 1n } });
    const answer = harness.reply(`<think>${THOUGHT}`, options);
    for (const index of [0, 1, 2]) expect(answer.text(index)).toBe('<think>abc</think>efgh</think>Yes.');
  });
});

test.each([
  [{ thinkingTokenBudget: -1 }, 'thinkingTokenBudget'],
  [{ thinkingTokenBudget: 1.5 }, 'thinkingTokenBudget'],
  [{ logprobTokenIds: [1_000_000], logprobs: 0 }, 'logprobTokenIds'],
  [{ logprobTokenIds: Array.from({ length: 129 }, () => 1), logprobs: 0 }, 'logprobTokenIds'],
])('%j is refused', (options, param) => {
  expect(new Harness().submit(options).failed).toMatchObject({ code: 'engine.invalid_request', param });
});
