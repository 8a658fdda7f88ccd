import { describe, expect, test } from 'vitest';

import { answerOf, chunksOf, outputsOf, type ScriptedChat } from '../../../testing/scripted-answers.ts';

/** A thought, its end tag with the first text after it, more text. */
const THINKING: ScriptedChat = {
  steps: [
    { ids: [20], text: '<think>' },
    { ids: [21, 22], text: 'hm, ', reply: { reasoning: 'hm, ' } },
    { ids: [23], text: 'so</think>4', reply: { reasoning: 'so', content: '4' } },
    { ids: [24], text: '2', reply: { content: '2' } },
  ],
  end: { parsed: { reasoning: 'hm, so', content: '42' }, reasoningTokens: 4 },
};
const HIDDEN: ScriptedChat = {
  ...THINKING,
  logprobs: 0,
  format: { hasReasoning: false, hasTokenIds: true, hasReasoningContent: true },
};

describe('in one piece', () => {
  test('reasoning and content are apart, and its tokens are counted', async () => {
    const { choices, usage } = await answerOf({ ...THINKING, n: 2 });
    expect(choices.map(({ message: { reasoning, content } }) => [reasoning, content])).toEqual([
      ['hm, so', '42'],
      ['hm, so', '42'],
    ]);
    expect(choices[0]?.message).not.toHaveProperty('reasoning_content');
    expect(usage).toMatchObject({ completion_tokens: 12, completion_tokens_details: { reasoning_tokens: 8 } });
  });

  test('a reply that is cut off while it reasons has null for content', async () => {
    const [choice] = (await answerOf({ ...THINKING, end: { parsed: { reasoning: 'hm, ' }, finishReason: 'length' } }))
      .choices;
    expect(choice).toMatchObject({ message: { content: null, reasoning: 'hm, ' }, finish_reason: 'length' });
  });

  test('the older name is there on request, with the same value', async () => {
    const format = { hasReasoningContent: true };
    const [choice] = (await answerOf({ ...THINKING, format })).choices;
    expect(choice?.message.reasoning_content).toBe('hm, so');
    const [without] = (await answerOf({ steps: [], end: { parsed: { content: 'x' } }, format })).choices;
    expect(without?.message.reasoning_content).toBeNull();
  });

  test('the usage has null details without a reasoning parser', async () => {
    expect((await answerOf({ steps: [] })).usage.completion_tokens_details).toBeNull();
    const { usage } = await answerOf({ ...THINKING, end: { parsed: {}, reasoningTokens: 0 } });
    expect(usage.completion_tokens_details).toEqual({ reasoning_tokens: 0 });
  });

  test('hidden reasoning leaves no trace but its count: ids and log-probabilities of the choice go with it', async () => {
    const { choices, usage } = await answerOf(HIDDEN);
    expect(choices[0]).toMatchObject({
      message: { content: '42', reasoning: null, reasoning_content: null },
      logprobs: null,
      token_ids: null,
      finish_reason: 'stop',
    });
    expect(usage).toMatchObject({ completion_tokens: 6, completion_tokens_details: { reasoning_tokens: 4 } });
  });

  test('a reply that was not read hides nothing: it cannot hold reasoning', async () => {
    const { choices } = await answerOf({ ...HIDDEN, steps: [{ ids: [5], text: 'hi' }], end: {} });
    expect(choices[0]?.token_ids).toEqual([5, 2]);
    expect(choices[0]?.logprobs?.content).toHaveLength(2);
  });
});

describe('streamed', () => {
  test('deltas have reasoning or content, or both around the end tag; a tag by itself gives none', async () => {
    const outputs = await outputsOf(THINKING);
    expect(outputs.map((output) => output.delta)).toEqual([
      { reasoning: 'hm, ' },
      { content: '4', reasoning: 'so' },
      { content: '2' },
      {},
    ]);
  });

  test('the older field name is added on request', async () => {
    const outputs = await outputsOf({ ...THINKING, format: { hasReasoningContent: true } });
    expect(outputs[0]?.delta).toEqual({ reasoning: 'hm, ', reasoning_content: 'hm, ' });
    expect(outputs[2]?.delta).toEqual({ content: '2' });
  });

  test('hidden reasoning sends nothing until the content, and no tokens at all', async () => {
    const outputs = await outputsOf(HIDDEN);
    expect(outputs).toEqual(
      [{ content: '4' }, { content: '2' }, {}].map((delta, i) => ({
        index: 0,
        delta,
        logprobs: null,
        finish_reason: i === 2 ? 'stop' : null,
        token_ids: null,
        ...(i === 2 ? { stop_reason: null } : {}),
      })),
    );
  });

  test('its tokens are counted, hidden or not, as they come and in the last chunk', async () => {
    const stream = { hasUsage: true, hasContinuousUsage: true };
    const chunks = await chunksOf({ ...HIDDEN, n: 2, format: { ...HIDDEN.format, stream } });
    expect(chunks.map((chunk) => chunk.usage?.completion_tokens)).toEqual([0, 0, 4, 4, 5, 5, 6, 6, 12]);
    expect(chunks.at(-1)?.usage).toEqual({
      prompt_tokens: 3,
      total_tokens: 15,
      completion_tokens: 12,
      prompt_tokens_details: { cached_tokens: 2 },
      completion_tokens_details: { reasoning_tokens: 8 },
    });
    expect(chunks[2]?.usage).not.toHaveProperty('completion_tokens_details');
  });

  test('the usage has no details without a reasoning parser', async () => {
    const stream = { hasUsage: true, hasContinuousUsage: false };
    const last = (await chunksOf({ steps: [], format: { stream } })).at(-1);
    expect(last?.usage).toEqual({
      prompt_tokens: 3,
      total_tokens: 4,
      completion_tokens: 1,
      prompt_tokens_details: { cached_tokens: 2 },
    });
  });
});
