import { describe, expect, test } from 'vitest';
import type { WireTrajectory } from '@trainyard/protocol';

import { TrajectoryFormatError } from './trajectory-format-error.ts';
import { type GroupOptions, trajectoryGroupOf } from './trajectory-groups.ts';

const read = (trajectory: WireTrajectory, options: GroupOptions = { vocabSize: 100 }) => {
  const group = trajectoryGroupOf({ trajectories: [trajectory] }, 3, options);
  const [first] = group.trajectories;
  if (!first) throw new Error('one trajectory in, one out');
  return first;
};
const items = (...list: Record<string, unknown>[]) =>
  read({ reward: 0, messages_and_choices: list }).histories[0]?.items ?? [];
const entries = (...ids: number[]) =>
  ids.map((id) => ({ token: `token_id:${id}`, logprob: -id / 8, bytes: null, top_logprobs: [] }));
const choice = (logprobs: unknown, more: Record<string, unknown> = {}) => ({
  finish_reason: 'stop',
  index: 0,
  message: { role: 'assistant', content: 'x' },
  logprobs,
  ...more,
});

describe('items', () => {
  test('a choice carries its sampled tokens and their log-probabilities', () => {
    const [item] = items(choice({ content: entries(4, 8), refusal: null }));
    expect(item).toEqual({
      kind: 'choice',
      finishReason: 'stop',
      answerPlace: ' 0',
      message: { role: 'assistant', content: 'x' },
      tokenIds: Int32Array.of(4, 8),
      logprobs: Float32Array.of(-0.5, -1),
    });
  });

  test('a choice is known by its record, named or found by the id of its answer, and by its place in the answer', () => {
    const id = `chatcmpl-${'0a'.repeat(16)}`;
    const logprobs = { content: entries(4) };
    const [named, found, foreign] = items(
      choice(logprobs, { record_id: 'r' }),
      choice(logprobs, { id, index: 2 }),
      choice(logprobs, { id: 'elsewhere', index: 1 }),
    );
    expect(named).toMatchObject({ recordId: 'r', answerPlace: ' 0' });
    const same = items(choice(logprobs, { record_id: `${'0a'.repeat(16)}-2` }))[0];
    expect(found).toMatchObject({ recordId: (same as { recordId: string }).recordId, answerPlace: `${id} 2` });
    expect(foreign).toMatchObject({ answerPlace: 'elsewhere 1' });
    expect(foreign).not.toHaveProperty('recordId');
  });

  test('token_ids must agree with the entries when there are as many, and are ignored otherwise', () => {
    const [same] = items(choice({ content: entries(4, 8) }, { token_ids: [4, 8] }));
    const [fewer] = items(choice({ content: entries(4, 8) }, { token_ids: [1] }));
    expect(same).toMatchObject({ tokenIds: Int32Array.of(4, 8) });
    expect(fewer).toMatchObject({ tokenIds: Int32Array.of(4, 8) });
    expect(() => items(choice({ content: entries(4, 8) }, { token_ids: [4, 9] }))).toThrow(
      'messages_and_choices.0.logprobs.content.1.token: Input should be token_id:9 as in `token_ids` of the choice',
    );
  });

  test('ids are checked also if they are not trained, and kept for training without log-probabilities', () => {
    expect(() => items(choice(null, { token_ids: [100] }))).toThrow('Input should be a token id in [0, 100)');
    expect(() => items(choice(null, { token_ids: 'many' }))).toThrow('Input should be a valid list');
    const bare = { reward: 0, messages_and_choices: [choice(null, { token_ids: [4, 8] }), choice(null)] };
    expect(read(bare).histories[0]?.items.map(({ kind }) => kind)).toEqual(['message', 'message']);
    const [first, second] = read(bare, { keepsBareIds: true }).histories[0]?.items ?? [];
    expect(first).toMatchObject({ kind: 'choice', tokenIds: Int32Array.of(4, 8), logprobs: Float32Array.of(NaN, NaN) });
    expect(second?.kind).toBe('message');
  });

  test('the ids of the prompt that a choice was sampled after are taken along', () => {
    const [item] = items(choice({ content: entries(4) }, { prompt_token_ids: [1, 2, 3] }));
    expect(item).toMatchObject({ tokenIds: Int32Array.of(4), promptTokenIds: Int32Array.of(1, 2, 3) });
    expect(() => items(choice({ content: entries(4) }, { prompt_token_ids: [-1] }))).toThrow('prompt_token_ids.0');
  });

  test('entries that are text are enough with token_ids, and refused without', () => {
    const texts = [{ token: 'a', logprob: -1 }];
    expect(items(choice({ content: texts }, { token_ids: [7] }))[0]).toMatchObject({ tokenIds: Int32Array.of(7) });
    expect(() => items(choice({ content: texts }))).toThrow(
      /trajectory_groups\.3\.trajectories\.0\.messages_and_choices\.0\.logprobs\.content\.0\.token/,
    );
  });

  test('refusal entries replace absent content', () => {
    expect(items(choice({ content: null, refusal: entries(3) }))[0]).toMatchObject({
      kind: 'choice',
      tokenIds: Int32Array.of(3),
    });
  });

  test.each([[null], [undefined], [{ content: null }], [{ content: [] }], [{}]])(
    'a choice with the logprobs %j is context',
    (logprobs) => {
      expect(items(choice(logprobs))[0]).toEqual({ kind: 'message', message: { role: 'assistant', content: 'x' } });
    },
  );

  test('an assistant message with logprobs is a choice too; other messages are context, unknown keys and all', () => {
    const user = { role: 'user', content: 'q', odd: 1, logprobs: { content: entries(1) } };
    const [first, second] = items(user, {
      role: 'assistant',
      content: 'a',
      logprobs: { content: entries(2) },
      token_ids: [2],
    });
    expect(first).toEqual({ kind: 'message', message: user });
    expect(second).toMatchObject({ kind: 'choice', tokenIds: Int32Array.of(2) });
  });

  test.each<[string, Record<string, unknown>, string]>([
    ['content of null', { role: 'user', content: [null] }, 'content.0: Input should be a string, or a part'],
    ['content of numbers', { role: 'user', content: ['x', 5] }, 'content.1: Input should be a string, or a part'],
    ['content of lists', { role: 'user', content: [['x']] }, 'content.0: Input should be a string, or a part'],
    ['a part that is nothing', { role: 'user', content: [{}] }, 'content.0.text: Input should be a valid string'],
    [
      'an invalid text',
      { role: 'user', content: [{ type: 'text', text: 5 }] },
      'content.0.text: Input should be a valid string',
    ],
    [
      'an invalid refusal',
      { role: 'assistant', content: [{ type: 'refusal', refusal: {} }] },
      'content.0.refusal: Input should be a valid string',
    ],
    ['calls that are text', { role: 'assistant', tool_calls: 'f' }, 'tool_calls: Input should be a valid list'],
    ['a call that is null', { role: 'assistant', tool_calls: [null] }, 'tool_calls.0: Input should be a call'],
    ['a call of nothing', { role: 'assistant', tool_calls: [{ id: '1' }] }, 'tool_calls.0.function: Input should have'],
    [
      'a call without a name',
      { role: 'assistant', tool_calls: [{ function: { arguments: '{}' } }] },
      'tool_calls.0.function.name: Input should be a valid string',
    ],
    [
      'arguments that are a number',
      { role: 'assistant', tool_calls: [{ function: { name: 'f', arguments: 5 } }] },
      'tool_calls.0.function.arguments: Input should be a valid string, or an object',
    ],
  ])('%s is refused with its place', (_name, item, message) => {
    expect(() => items({ role: 'user', content: 'q' }, item)).toThrow(message);
  });

  test('every chat message is accepted: parts without text, calls that were cut off, and object arguments', () => {
    const call = (args: unknown) => ({ id: '1', type: 'function', function: { name: '', arguments: args } });
    const list = [
      { role: 'user', content: ['x', { type: 'text' }, { type: 'text', text: null }, { text: 'y' }] },
      { role: 'assistant', content: null, tool_calls: [call('{"a":'), call({}), call(null)] },
      { role: 'assistant', content: [], tool_calls: null },
      { role: 'tool', tool_call_id: '1', content: [{ type: 'text', text: 'r' }], tool_calls: 'unread' },
    ];
    expect(items(...list).map(({ message }) => message)).toEqual(list);
  });

  test('a log-probability that rounding put above 0 is 0; a larger one is refused', () => {
    const at = (logprob: unknown) => items(choice({ content: [{ token: 'token_id:1', logprob }] }))[0];
    expect(at(1e-6)).toMatchObject({ logprobs: Float32Array.of(0) });
    for (const wrong of [0.01, null, 'x', NaN, Infinity, undefined])
      expect(() => at(wrong)).toThrow(TrajectoryFormatError);
  });

  test('a log-probability that is infinite in 32 bits is refused with its place', () => {
    const at = (logprob: number) => items(choice({ content: [...entries(1), { token: 'token_id:1', logprob }] }));
    const lowest = -3.4028234663852886e38;
    expect(at(lowest)[0]).toMatchObject({ logprobs: Float32Array.of(-0.125, lowest) });
    for (const logprob of [-3.5e38, -1e39, -Number.MAX_VALUE])
      expect(() => at(logprob)).toThrow(
        expect.objectContaining({
          item: expect.objectContaining({
            loc: expect.arrayContaining(['messages_and_choices', 'logprobs', 'content', 1, 'logprob']),
            type: 'logprob_invalid',
            input: logprob,
          }),
        }),
      );
  });

  test.each([[100], [-1], [1.5], ['7'], [null]])('the token id %j is outside a vocabulary of 100', (id) => {
    expect(() => items(choice({ content: entries(1) }, { token_ids: [id] }))).toThrow(/token id in \[0, 100\)/);
  });

  test.each([
    [5],
    [{}],
    [{ role: 5 }],
    [{ message: { role: 5 } }],
    [{ role: 'user', content: 5 }],
    [choice(5)],
    [choice({ content: 5 })],
  ])('%j is no item', (item) => {
    expect(() => read({ reward: 0, messages_and_choices: [item as Record<string, unknown>] })).toThrow(
      TrajectoryFormatError,
    );
  });
});

describe('trajectories', () => {
  test('have defaults for every key but the reward', () => {
    expect(read({ reward: 0 })).toEqual({ reward: 0, histories: [{ items: [], tools: null }] });
  });

  test('have one history each for the main conversation and the additional ones, with their own tools', () => {
    const tools = [{ type: 'function' }];
    const { histories } = read({
      reward: 0,
      messages_and_choices: [],
      tools,
      additional_histories: [{ messages_and_choices: [{ role: 'user' }] }],
    });
    expect(histories.map((history) => [history.items.length, history.tools])).toEqual([
      [0, tools],
      [1, null],
    ]);
  });

  test('carry the variables of the template for each history', () => {
    const history = { messages_and_choices: [{ role: 'user', content: 'x' }] };
    const { histories } = read({
      reward: 0,
      ...history,
      chat_template_kwargs: { enable_thinking: false },
      additional_histories: [{ ...history, chat_template_kwargs: { enable_thinking: true } }, history],
    });
    expect(histories.map(({ templateVariables }) => templateVariables)).toEqual([
      { enable_thinking: false },
      { enable_thinking: true },
      undefined,
    ]);
  });

  test('a boolean reward is 0 or 1, and an infinite one is refused', () => {
    expect(read({ reward: true }).reward).toBe(1);
    expect(() => read({ reward: Infinity })).toThrow(/reward/);
  });

  test('exceptions are counted', () => {
    expect(trajectoryGroupOf({ trajectories: [], exceptions: [{}, {}] }, 0)).toEqual({
      trajectories: [],
      numExceptions: 2,
    });
  });
});
