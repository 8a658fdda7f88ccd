import { expect, test } from 'vitest';

import { answerOf, chunksOf, outputsOf, type ScriptedChat } from '../../testing/scripted-answers.ts';
import type { ScriptedStep } from '../../testing/scripted-inference.ts';
import type { OutputEvent } from './chat-events.ts';
import { OutputGatherer } from './output-gatherer.ts';

const TOKENS: ScriptedStep[] = Array.from({ length: 7 }, (_, i) => ({ ids: [10 + i], text: `${i}` }));

test('a chunk has as many tokens as the interval, and the last one the rest', async () => {
  const chat: ScriptedChat = { steps: TOKENS, logprobs: 0, format: { streamInterval: 3, hasTokenIds: true } };
  const outputs = await outputsOf(chat);
  expect(outputs.map((output) => [output.delta.content, output.token_ids])).toEqual([
    ['012', [10, 11, 12]],
    ['345', [13, 14, 15]],
    ['6', [16, 2]],
  ]);
  expect(outputs.map((output) => output.logprobs?.content.map((entry) => entry.token))).toEqual([
    ['<10>', '<11>', '<12>'],
    ['<13>', '<14>', '<15>'],
    ['<16>', '<2>'],
  ]);
  expect(outputs.map((output) => output.finish_reason)).toEqual([null, null, 'stop']);
});

test('each choice has its own interval, and running usage counts the sent tokens', async () => {
  const stream = { hasUsage: true, hasContinuousUsage: true };
  const chunks = await chunksOf({ steps: TOKENS, n: 2, format: { streamInterval: 4, stream } });
  expect(chunks.map((chunk) => [chunk.choices[0]?.index, chunk.usage?.completion_tokens])).toEqual([
    [0, 0],
    [1, 0],
    [0, 4],
    [1, 4],
    [0, 8],
    [1, 8],
    [undefined, 16],
  ]);
});

test.each([1, 2, 3, 100])('with an interval of %d the parts of a reply add up to the same', async (streamInterval) => {
  const call = { id: 'c', name: 'f', arguments: '{"a": 1}' };
  const chat: ScriptedChat = {
    steps: [
      { ids: [1], text: 'a', reply: { reasoning: 'th' } },
      { ids: [2], text: 'b', reply: { reasoning: 'ink', content: 'I ' } },
      { ids: [3], text: 'c', reply: { content: 'call', toolCalls: [{ index: 0, id: 'c', name: 'f', arguments: '' }] } },
      { ids: [4], text: 'd', reply: { toolCalls: [{ index: 0, arguments: '{"a"' }] } },
      {
        ids: [5],
        text: 'e',
        reply: {
          toolCalls: [
            { index: 0, arguments: ': 1}' },
            { index: 1, ...call },
          ],
        },
      },
    ],
    end: { parsed: { reasoning: 'think', content: 'I call', toolCalls: [call, call] } },
    format: { streamInterval, toolChoice: 'auto' },
  };
  const [choice] = (await answerOf(chat)).choices;
  const deltas = (await outputsOf(chat)).map((output) => output.delta);
  expect(deltas.map((delta) => delta.content ?? '').join('')).toBe(choice?.message.content);
  expect(deltas.map((delta) => delta.reasoning ?? '').join('')).toBe(choice?.message.reasoning);
  const pieces = deltas.flatMap((delta) => delta.tool_calls ?? []);
  for (const [index, { function: called }] of (choice?.message.tool_calls ?? []).entries()) {
    const own = pieces.filter((piece) => piece.index === index);
    expect(own.map((piece) => piece.function.arguments ?? '').join('')).toBe(called.arguments);
    expect(own.map((piece) => piece.function.name)).toEqual(['f', ...own.slice(1).map(() => undefined)]);
  }
  if (streamInterval === 100) expect(deltas).toHaveLength(1);
});

test('events that the engine gave stay as they were', () => {
  const gatherer = new OutputGatherer(3);
  const event = (id: number): OutputEvent => ({
    kind: 'delta',
    index: 0,
    text: 'x',
    tokenIds: [id],
    logprobs: null,
    reply: { content: 'x', reasoning: '', toolCalls: [{ index: 0, arguments: '{' }] },
  });
  const first = event(1);
  expect([gatherer.gather(first), gatherer.gather(event(2))]).toEqual([null, null]);
  expect(gatherer.gather(event(3))).toMatchObject({
    tokenIds: [1, 2, 3],
    reply: { toolCalls: [{ arguments: '{{{' }] },
  });
  expect(first).toEqual(event(1));
});
