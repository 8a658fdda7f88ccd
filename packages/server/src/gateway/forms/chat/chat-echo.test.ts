import { expect, test } from 'vitest';

import { answerOf, chunksOf, type ScriptedChat } from '../../../testing/scripted-answers.ts';

const CONTINUING: ScriptedChat = {
  steps: [{ ids: [5, 6], text: ' world' }],
  n: 2,
  logprobs: 0,
  format: { role: 'user', echo: 'hello', hasTokenIds: true },
};

test('every choice starts with the last message; usage, ids and log-probabilities are only of the reply', async () => {
  const { choices, usage } = await answerOf(CONTINUING);
  expect(choices.map(({ message: { role, content } }) => [role, content])).toEqual([
    ['user', 'hello world'],
    ['user', 'hello world'],
  ]);
  expect(choices.map((choice) => choice.token_ids)).toEqual([
    [5, 6, 2],
    [5, 6, 2],
  ]);
  expect(choices[1]?.logprobs?.content).toHaveLength(3);
  expect(usage).toMatchObject({ prompt_tokens: 3, completion_tokens: 6 });
});

test('null content counts as empty after the echo', async () => {
  const end = { parsed: { reasoning: 'hm' } };
  const [choice] = (await answerOf({ ...CONTINUING, end })).choices;
  expect(choice?.message).toMatchObject({ content: 'hello', reasoning: 'hm' });
});

test('a stream has role chunks for all choices, then echo chunks for all, with no tokens counted', async () => {
  const stream = { hasUsage: true, hasContinuousUsage: true };
  const chunks = await chunksOf({ ...CONTINUING, format: { ...CONTINUING.format, stream, hasPromptTokenIds: true } });
  expect(
    chunks.slice(0, 4).map(({ choices, usage, prompt_token_ids: ids }) => [choices, usage?.completion_tokens, ids]),
  ).toEqual([
    [[{ index: 0, delta: { role: 'user', content: '' }, logprobs: null, finish_reason: null }], 0, [1, 2, 3]],
    [[{ index: 1, delta: { role: 'user', content: '' }, logprobs: null, finish_reason: null }], 0, [1, 2, 3]],
    [[{ index: 0, delta: { content: 'hello' }, logprobs: null, finish_reason: null }], 0, undefined],
    [[{ index: 1, delta: { content: 'hello' }, logprobs: null, finish_reason: null }], 0, undefined],
  ]);
  expect(chunks[4]).toMatchObject({
    choices: [{ index: 0, delta: { content: ' world' } }],
    usage: { completion_tokens: 2 },
  });
});

test('an empty echo sends no chunk', async () => {
  const format = { ...CONTINUING.format, echo: '' };
  const deltas = (await chunksOf({ ...CONTINUING, n: 1, format })).map((chunk) => chunk.choices[0]?.delta);
  expect(deltas).toEqual([{ role: 'user', content: '' }, { content: ' world' }, { content: '' }]);
});
