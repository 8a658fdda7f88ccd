/** Reference §3: the end of a reply, and its report. */
import { afterAll, beforeAll, describe, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import { ScriptedService } from '../scripted-service.ts';
import { readEvents } from '../test-server.ts';

let service: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open();
});
afterAll(() => service.close());

const B = 'b'.charCodeAt(0);
const EOS = 258;
const SECOND_END = 256;

describe('tokens', () => {
  test('the end token: `stop` without a reason, its text left out, its id counted and listed', async () => {
    service.setReply('ab');
    const { choices, usage } = await service.answer({ return_token_ids: true, logprobs: true });
    expect(choices[0]).toMatchObject({ finish_reason: 'stop', stop_reason: null, message: { content: 'ab' } });
    expect(choices[0]!.token_ids).toEqual([97, 98, EOS]);
    expect(choices[0]!.logprobs!.content).toHaveLength(3);
    expect(usage.completion_tokens).toBe(3);
  });

  test('a further end token of the model, and a stop id: their id is the reason', async () => {
    service.setReply('ab<|endoftext|>');
    expect(await service.reply()).toEqual({ content: 'ab', reason: 'stop', stop: SECOND_END });
    expect(await service.reply({ stop_token_ids: [B] })).toEqual({ content: 'a', reason: 'stop', stop: B });
  });

  test('their text stays with include_stop_str_in_output', async () => {
    service.setReply('abc');
    const kept = { include_stop_str_in_output: true };
    expect(await service.content({ ...kept, stop_token_ids: [B] })).toBe('ab');
    expect(await service.content({ ...kept, skip_special_tokens: false })).toBe('abc<|im_end|>');
  });

  test('ignore_eos continues after every end token, and still stops at stop ids and stop strings', async () => {
    service.setReply('a<|endoftext|>b');
    const fields = { ignore_eos: true, max_tokens: 5, skip_special_tokens: false };
    expect(await service.reply(fields)).toMatchObject({
      content: 'a<|endoftext|>b<|im_end|><|im_end|>',
      reason: 'length',
    });
    expect(await service.reply({ ...fields, stop_token_ids: [EOS] })).toMatchObject({ reason: 'stop', stop: EOS });
    expect(await service.reply({ ...fields, stop: 'b' })).toMatchObject({ reason: 'stop', stop: 'b' });
  });

  test('an end token on the last place is a stop', async () => {
    service.setReply('ab');
    expect(await service.reply({ max_tokens: 3 })).toMatchObject({ content: 'ab', reason: 'stop', stop: null });
    expect(await service.reply({ max_tokens: 2 })).toMatchObject({ content: 'ab', reason: 'length', stop: null });
  });
});

describe('stop strings', () => {
  test('cut the text across tokens, and keep the ids up to the end of the match', async () => {
    service.setReply('one two three');
    const { choices } = await service.answer({ stop: 'two', return_token_ids: true });
    expect(choices[0]).toMatchObject({ message: { content: 'one ' }, finish_reason: 'stop', stop_reason: 'two' });
    expect(choices[0]!.token_ids).toEqual([...Buffer.from('one two')]);
    expect(await service.content({ stop: ['two'], include_stop_str_in_output: true })).toBe('one two');
  });

  test('the match that ends first wins, then the first in the list', async () => {
    service.setReply('abcd');
    expect(await service.reply({ stop: ['abcd', 'bc'] })).toMatchObject({ content: 'a', stop: 'bc' });
    expect(await service.reply({ stop: ['bc', 'abc'] })).toMatchObject({ content: 'a', stop: 'bc' });
    expect(await service.reply({ stop: ['abc', 'bc'] })).toMatchObject({ content: '', stop: 'abc' });
  });

  test('are not looked for in the first min_tokens tokens', async () => {
    service.setReply('xxaxx');
    expect(await service.reply({ stop: 'x', min_tokens: 2 })).toMatchObject({ content: 'xxa', stop: 'x' });
  });

  test('are searched in the shown text: special tokens count only if they are shown', async () => {
    service.setReply('a<|im_start|>b');
    expect(await service.reply({ stop: 'ab' })).toMatchObject({ content: '', stop: 'ab' });
    expect(await service.reply({ stop: 'start', skip_special_tokens: false })).toMatchObject({
      content: 'a<|im_',
      stop: 'start',
    });
  });

  test('a stream holds back the possible start of one, not its ids', async () => {
    service.setReply('aaxbb');
    const { events } = readEvents(
      (await service.server.chat({ stream: true, stop: 'xyz', return_token_ids: true })).body,
    );
    const outputs = events.flatMap((event) => event.choices ?? []).slice(1);
    expect(outputs.map(({ delta, token_ids: ids }) => [delta.content, ids])).toEqual([
      ['a', [97]],
      ['a', [97]],
      ['', [120]],
      ['xb', [98]],
      ['b', [98]],
      ['', [EOS]],
    ]);
  });
});

test('skip_special_tokens leaves special tokens out of the text, and nowhere else', async () => {
  service.setReply('a<|im_start|>b');
  const { choices } = await service.answer({ return_token_ids: true, logprobs: true });
  expect(choices[0]!.message.content).toBe('ab');
  expect(choices[0]!.token_ids).toEqual([97, 257, 98, EOS]);
  expect(choices[0]!.logprobs!.content.map(({ token }) => token)).toEqual(['a', '<|im_start|>', 'b', '<|im_end|>']);
  for (const spaces_between_special_tokens of [true, false])
    expect(await service.content({ skip_special_tokens: false, spaces_between_special_tokens })).toBe('a<|im_start|>b');
});

test('a character of several tokens comes with the last of them', async () => {
  service.setReply('é!');
  const { events } = readEvents((await service.server.chat({ stream: true })).body);
  expect(events.flatMap((event) => event.choices ?? []).map(({ delta }) => delta.content)).toEqual([
    '',
    '',
    'é',
    '!',
    '',
  ]);
});

describe('repetition_detection', () => {
  const detection = (fields: object) => ({ repetition_detection: { max_pattern_size: 3, min_count: 3, ...fields } });
  test.each([
    [{}, 'xababab', 'repetition'],
    [{ min_count: 2 }, 'xabab', 'repetition'],
    [{ max_pattern_size: 1 }, 'xabababab', 'stop'],
    [{ min_pattern_size: 3 }, 'xabababab', 'stop'],
    [{ max_pattern_size: 0, min_pattern_size: 0 }, 'xabababab', 'stop'],
    [{ min_pattern_size: 0 }, 'xababab', 'repetition'],
  ])('%j: %s, %s', async (fields, content, reason) => {
    service.setReply('xabababab');
    expect(await service.reply(detection(fields))).toMatchObject({ content, reason });
  });

  test('not before min_tokens, and only in the reply', async () => {
    service.setReply('xabababab');
    expect(await service.reply({ ...detection({}), min_tokens: 8 })).toMatchObject({
      content: 'xabababa',
      reason: 'repetition',
    });
    service.setReply('ab');
    const messages = [{ role: 'user', content: 'ababababab' }];
    expect(await service.reply({ ...detection({ min_count: 2 }), messages })).toMatchObject({
      content: 'ab',
      reason: 'stop',
    });
  });
});
