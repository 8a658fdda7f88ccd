import { describe, expect, test } from 'vitest';

import { answerOf, chunksOf, outputsOf, type ScriptedChat } from '../../../testing/scripted-answers.ts';
import type { ScriptedStep } from '../../../testing/scripted-inference.ts';

const CALL = { id: 'chatcmpl-tool-0123456789abcdef', name: 'f', arguments: '{"a": 1}' };
const SECOND = { id: 'chatcmpl-tool-fedcba9876543210', name: 'g', arguments: '{}' };
const WIRE_CALL = { id: CALL.id, type: 'function', function: { name: 'f', arguments: '{"a": 1}' } };

/** A call in the tokens of its markup: the opening tag, the name, the arguments in chunks. */
const STEPS: ScriptedStep[] = [
  { ids: [10], text: '<tool_call>' },
  {
    ids: [11],
    text: '{"name": "f", ',
    reply: { toolCalls: [{ index: 0, id: CALL.id, name: CALL.name, arguments: '' }] },
  },
  { ids: [12], text: '"arguments": {"a"', reply: { toolCalls: [{ index: 0, arguments: '{"a"' }] } },
  { ids: [13], text: ': 1}}', reply: { toolCalls: [{ index: 0, arguments: ': 1}' }] } },
];
const CALLING: ScriptedChat = {
  steps: STEPS,
  end: { parsed: { toolCalls: [CALL] } },
  format: { toolChoice: 'auto' },
};

describe('the message', () => {
  test('has the calls as the parser read them, and null content if there is none', async () => {
    const [choice] = (await answerOf(CALLING)).choices;
    expect(choice?.message).toEqual({
      role: 'assistant',
      content: null,
      refusal: null,
      annotations: null,
      audio: null,
      function_call: null,
      tool_calls: [WIRE_CALL],
      reasoning: null,
    });
    expect(Object.keys(choice?.message ?? {}).at(-2)).toBe('tool_calls');
  });

  test('has the text in front of the calls, and not the markup', async () => {
    const end = { parsed: { content: 'I look.', toolCalls: [CALL, SECOND] } };
    const [choice] = (await answerOf({ ...CALLING, end })).choices;
    expect(choice?.message.content).toBe('I look.');
    expect(choice?.message.tool_calls?.map((call) => call.function.name)).toEqual(['f', 'g']);
  });

  test('has no key tool_calls without a call', async () => {
    const [choice] = (await answerOf({ ...CALLING, steps: [], end: { parsed: { content: 'no' } } })).choices;
    expect(choice?.message.content).toBe('no');
    expect(choice?.message).not.toHaveProperty('tool_calls');
  });

  test.each(['required', 'named'] as const)('has empty content with %s', async (toolChoice) => {
    const end = { parsed: { content: '', toolCalls: [CALL] } };
    const [choice] = (await answerOf({ steps: STEPS, end, format: { toolChoice } })).choices;
    expect(choice?.message).toMatchObject({ content: '', tool_calls: [WIRE_CALL] });
  });

  test('is plain text, markup included, without a parser', async () => {
    const [choice] = (await answerOf({ steps: [{ ids: [10], text: '<tool_call>x' }] })).choices;
    expect(choice?.message.content).toBe('<tool_call>x');
  });
});

describe('finish_reason, in one piece and streamed alike', () => {
  test.each([
    ['auto', 'calls', 'stop', 'tool_calls'],
    ['auto', 'calls', 'length', 'length'],
    ['auto', 'calls', 'repetition', 'repetition'],
    ['auto', 'none', 'stop', 'stop'],
    ['auto', 'none', 'length', 'length'],
    ['required', 'calls', 'stop', 'tool_calls'],
    ['required', 'calls', 'length', 'length'],
    ['required', 'none', 'stop', 'stop'],
    ['named', 'calls', 'stop', 'stop'],
    ['named', 'calls', 'length', 'length'],
    ['none', 'none', 'stop', 'stop'],
    ['none', 'none', 'abort', 'abort'],
  ] as const)('%s, %s parsed, the engine returns %s: %s', async (toolChoice, calls, finishReason, expected) => {
    const parsed = { content: '', toolCalls: calls === 'calls' ? [CALL] : [] };
    const chat = { steps: STEPS, end: { parsed, finishReason }, format: { toolChoice } };
    expect((await answerOf(chat)).choices[0]?.finish_reason).toBe(expected);
    expect((await outputsOf(chat)).at(-1)?.finish_reason).toBe(expected);
  });

  test('stop_reason is set next to it', async () => {
    const chat = { ...CALLING, end: { ...CALLING.end, stopReason: '</tool_call>' } };
    const [choice] = (await answerOf(chat)).choices;
    expect([choice?.finish_reason, choice?.stop_reason]).toEqual(['tool_calls', '</tool_call>']);
    expect((await outputsOf(chat)).at(-1)?.stop_reason).toBe('</tool_call>');
  });
});

describe('the deltas of a stream', () => {
  test('of calls chosen by the model: first the name, then arguments, with null for content; tags give nothing', async () => {
    const outputs = await outputsOf(CALLING);
    expect(outputs).toEqual([
      {
        index: 0,
        delta: {
          content: null,
          tool_calls: [{ index: 0, id: CALL.id, type: 'function', function: { name: 'f' } }],
        },
        logprobs: null,
        finish_reason: null,
        token_ids: null,
      },
      delta({ content: null, tool_calls: [{ index: 0, function: { arguments: '{"a"' } }] }),
      delta({ content: null, tool_calls: [{ index: 0, function: { arguments: ': 1}' } }] }),
      { index: 0, delta: {}, logprobs: null, finish_reason: 'tool_calls', token_ids: null, stop_reason: null },
    ]);
  });

  test('name and arguments that come together stay together, several calls too', async () => {
    const both = [CALL, SECOND].map((call, index) => ({ index, ...call }));
    const [first] = await outputsOf({ ...CALLING, steps: [{ ids: [9], text: 'x', reply: { toolCalls: both } }] });
    expect(first?.delta.tool_calls).toEqual([
      { index: 0, ...WIRE_CALL },
      { index: 1, id: SECOND.id, type: 'function', function: { name: 'g', arguments: '{}' } },
    ]);
  });

  test('required: the first piece has arguments, later ones a null name', async () => {
    const outputs = await outputsOf({ ...CALLING, format: { toolChoice: 'required' } });
    expect(outputs.flatMap((output) => output.delta.tool_calls ?? [])).toEqual([
      { index: 0, id: CALL.id, type: 'function', function: { name: 'f', arguments: '' } },
      { index: 0, function: { name: null, arguments: '{"a"' } },
      { index: 0, function: { name: null, arguments: ': 1}' } },
    ]);
  });

  test('named: the first piece has arguments, later ones have nothing else', async () => {
    const outputs = await outputsOf({ ...CALLING, format: { toolChoice: 'named' } });
    expect(outputs.flatMap((output) => output.delta.tool_calls ?? [])).toEqual([
      { index: 0, id: CALL.id, type: 'function', function: { name: 'f', arguments: '' } },
      { index: 0, function: { arguments: '{"a"' } },
      { index: 0, function: { arguments: ': 1}' } },
    ]);
  });

  test('text in front of a call is content as it comes, and shares a delta with a call of the same step', async () => {
    const steps: ScriptedStep[] = [
      { ids: [8], text: 'I ', reply: { content: 'I ' } },
      {
        ids: [9],
        text: 'look',
        reply: { content: 'look', toolCalls: [{ index: 0, id: 'i', name: 'f', arguments: '' }] },
      },
    ];
    const outputs = await outputsOf({ ...CALLING, steps });
    expect(outputs.map((output) => output.delta.content)).toEqual(['I ', 'look', undefined]);
    expect(outputs[0]?.delta).toEqual({ content: 'I ' });
  });

  test('a step that adds to no part is sent, empty, if its tokens are requested', async () => {
    const withIds = await outputsOf({ ...CALLING, format: { toolChoice: 'auto', hasTokenIds: true } });
    expect(withIds[0]).toEqual({ ...delta({}), token_ids: [10] });
    expect(withIds.flatMap((output) => output.token_ids ?? [])).toEqual([10, 11, 12, 13, 2]);
    const withLogprobs = await outputsOf({ ...CALLING, logprobs: 0 });
    expect(withLogprobs[0]?.delta).toEqual({});
    expect(withLogprobs.map((output) => output.logprobs?.content.map((entry) => entry.token))).toEqual([
      ['<10>'],
      ['<11>'],
      ['<12>'],
      ['<13>'],
      ['<2>'],
    ]);
  });

  test('a step without tokens and parts is never sent', async () => {
    const steps = [{ ids: [], text: '' }, ...STEPS];
    const outputs = await outputsOf({ ...CALLING, steps, logprobs: 0 });
    expect(outputs).toHaveLength(5);
  });

  test('text held back until the end comes with the finish', async () => {
    const end = { parsed: { content: 'a <tool' }, reply: { content: ' <tool' } };
    const outputs = await outputsOf({ ...CALLING, steps: [{ ids: [8], text: 'a', reply: { content: 'a' } }], end });
    expect(outputs.at(-1)).toMatchObject({ delta: { content: ' <tool' }, finish_reason: 'stop' });
  });

  test('tokens of steps that are not sent count in the usage of the next chunk', async () => {
    const stream = { hasUsage: true, hasContinuousUsage: true };
    const chunks = await chunksOf({ ...CALLING, n: 2, format: { toolChoice: 'auto', stream } });
    const counts = chunks.map((chunk) => [chunk.choices[0]?.index, chunk.usage?.completion_tokens]);
    // Two role chunks, then every step of both choices except the tag, then the sum.
    expect(counts).toEqual([
      [0, 0],
      [1, 0],
      [0, 2],
      [1, 2],
      [0, 3],
      [1, 3],
      [0, 4],
      [1, 4],
      [0, 5],
      [1, 5],
      [undefined, 10],
    ]);
  });
});

test('the deltas of several choices, put together, are the messages of the answer in one piece', async () => {
  const chat: ScriptedChat = {
    steps: [{ ids: [8], text: 'ok ', reply: { content: 'ok ' } }, ...STEPS],
    end: { parsed: { content: 'ok ', toolCalls: [CALL] } },
    n: 3,
    format: { toolChoice: 'auto' },
  };
  const whole = await answerOf(chat);
  const choices = (await chunksOf(chat)).flatMap((chunk) => chunk.choices);
  for (const { index, message, finish_reason: reason } of whole.choices) {
    const own = choices.filter((choice) => choice.index === index);
    expect(own.map(({ delta: { content } }) => content ?? '').join('')).toBe(message.content);
    const pieces = own.flatMap((choice) => choice.delta.tool_calls ?? []);
    expect(pieces.map((piece) => piece.function.arguments ?? '').join('')).toBe(CALL.arguments);
    expect(pieces.flatMap((piece) => piece.id ?? [])).toEqual([CALL.id]);
    expect(own.at(-1)?.finish_reason).toBe(reason);
  }
  expect(whole.choices.map((choice) => choice.index)).toEqual([0, 1, 2]);
});

function delta(content: object) {
  return { index: 0, delta: content, logprobs: null, finish_reason: null, token_ids: null };
}
