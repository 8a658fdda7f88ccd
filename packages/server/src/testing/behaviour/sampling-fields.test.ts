/** Reference §1.2, §1.3 and §2: effect of each sampling field on the reply, through the whole service. */
import { afterAll, afterEach, beforeAll, describe, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import type { ErrorBody } from '@trainyard/protocol';
import { readEvents } from '../test-server.ts';
import { END, ScriptedService } from '../scripted-service.ts';

let service: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open();
});
afterEach(() => service.prefer({ x: 0 }));
afterAll(() => service.close());

const GREEDY = { temperature: 0, max_tokens: 5 };
const [A, B, C] = [97, 98, 99];
const EOS = 258;
const EVERY_ID = Array.from({ length: 261 }, (_, id) => id);
/** Distinct letters among many draws of one token. */
async function drawn(fields: Record<string, unknown>): Promise<string> {
  const { choices } = await service.answer({ n: 200, max_tokens: 1, seed: 1, ...fields });
  return [...new Set(choices.map(({ message }) => message.content))].toSorted((a, b) => (a! < b! ? -1 : 1)).join('');
}

describe('penalties', () => {
  test('frequency_penalty is subtracted once for each time in the reply; the prompt does not count', async () => {
    // a 1.0, 0.4, -0.2: then b, whose 0 falls to -0.6, and so on.
    service.prefer({ a: 1, b: 0 });
    const messages = [{ role: 'user', content: 'aaaa' }];
    expect(await service.content({ ...GREEDY, messages, frequency_penalty: 0.6 })).toBe('aabab');
  });

  test('presence_penalty is subtracted once', async () => {
    service.prefer({ a: 1, b: 0 });
    expect(await service.content({ ...GREEDY, presence_penalty: 1.5 })).toBe('abaaa');
  });

  test('repetition_penalty divides or multiplies, over reply and prompt, the template’s words included', async () => {
    // `assistant` in the template contains an a: 1 / 2 is below 0.75, which falls to 0.375 next.
    service.prefer({ a: 1, b: 0.75 });
    expect(await service.content({ ...GREEDY, repetition_penalty: 2 })).toBe('baaaa');
    // And -1 * 2 is below -1.5, which falls to -3.
    service.prefer({ a: -1, b: -1.5 });
    expect(await service.content({ ...GREEDY, repetition_penalty: 2 })).toBe('baaaa');
  });
});

describe('masks', () => {
  test('logit_bias is added before the choice, also of the likeliest', async () => {
    service.prefer({ a: 1, b: 0 });
    expect(await service.content({ ...GREEDY, logit_bias: { [B]: 1.5 } })).toBe('bbbbb');
  });

  test('allowed_token_ids leaves nothing else', async () => {
    service.prefer({ a: 9, b: 0, c: -1 });
    expect(await service.content({ ...GREEDY, allowed_token_ids: [C, B] })).toBe('bbbbb');
  });

  test('bad_words keep words out of the reply, with and without a leading space', async () => {
    service.prefer((reply) => ({ a: reply.endsWith('a') ? 0 : 1, b: reply.endsWith('a') ? 2 : 0 }));
    expect(await service.content(GREEDY)).toBe('ababa');
    expect(await service.content({ ...GREEDY, bad_words: ['ab'] })).toBe('aaaaa');
    service.prefer({ a: 1, b: 0 });
    expect(await service.content({ ...GREEDY, bad_words: ['a'] })).toBe('bbbbb');
  });

  test('the masks come first: no bias brings a token back', async () => {
    service.prefer({ a: 1, b: 0 });
    const biased = { ...GREEDY, logit_bias: { [A]: 100 } };
    expect(await service.content({ ...biased, allowed_token_ids: [B] })).toBe('bbbbb');
    expect(await service.content({ ...biased, bad_words: ['a'] })).toBe('bbbbb');
    expect(await service.content({ ...biased, structured_outputs: { regex: 'b+' } })).toBe('bbbbb');
  });

  test.each([
    [{ allowed_token_ids: [EOS], min_tokens: 1 }, 'allowed_token_ids'],
    [{ allowed_token_ids: [EOS, A], stop_token_ids: [A], min_tokens: 2, ignore_eos: true }, 'allowed_token_ids'],
    [{ allowed_token_ids: [A, B], bad_words: ['a', 'b'] }, 'allowed_token_ids'],
    [{ allowed_token_ids: [A, EOS], bad_words: ['a'], min_tokens: 1 }, 'allowed_token_ids'],
    [{ stop_token_ids: EVERY_ID, min_tokens: 1 }, 'min_tokens'],
    [{ allowed_token_ids: [A], structured_outputs: { regex: 'b' } }, 'allowed_token_ids'],
    [{ bad_words: ['b'], structured_outputs: { regex: 'b' } }, 'bad_words'],
    [{ stop_token_ids: [B], min_tokens: 1, structured_outputs: { regex: 'b' } }, 'min_tokens'],
  ])('masks %#: leave no first token, and are refused', async (masks, field) => {
    service.prefer({ a: 1 });
    expect(await service.refusal({ ...GREEDY, ...masks })).toBe(`400 ${field}`);
    expect(await service.refusal({ ...GREEDY, ...masks, stream: true })).toBe(`400 ${field}`);
  });

  test('masks that leave a first token are accepted', async () => {
    service.prefer({ a: 1, b: 0 });
    expect(await service.content({ ...GREEDY, allowed_token_ids: [EOS], min_tokens: 0 })).toBe('');
    expect(await service.content({ ...GREEDY, max_tokens: 1, allowed_token_ids: [EOS, B], min_tokens: 1 })).toBe('b');
    const ending = { stop_token_ids: [A], structured_outputs: { regex: '' }, min_tokens: 1 };
    expect(await service.content({ ...GREEDY, ...ending })).toBe('');
  });

  test.each([
    [{ allowed_token_ids: [A], bad_words: ['aa'] }, 'allowed_token_ids', 1],
    [{ allowed_token_ids: [A, EOS], bad_words: ['aaa'], min_tokens: 4 }, 'allowed_token_ids', 2],
    [{ allowed_token_ids: [A], structured_outputs: { regex: 'ab' } }, 'allowed_token_ids', 1],
    [{ bad_words: ['ab'], structured_outputs: { regex: 'ab' } }, 'bad_words', 1],
    [{ stop_token_ids: [B], min_tokens: 3, structured_outputs: { regex: 'ab' } }, 'min_tokens', 1],
  ])('masks %#: leave no token later, and one answer reports it', async (masks, field, numTokens) => {
    service.prefer({ a: 1 });
    const named = { code: 'engine.no_token_left', type: 'invalid_request_error', param: field };
    const response = await service.server.chat({ ...GREEDY, ...masks });
    const { error } = response.json<ErrorBody>();
    expect([response.statusCode, error]).toMatchObject([400, named]);
    expect(error.message).toContain(
      `${field} must leave a token that a reply can continue with after its first ${numTokens},`,
    );
    const { events, isDone } = readEvents((await service.server.chat({ ...GREEDY, ...masks, stream: true })).body);
    expect(isDone).toBe(true);
    const ends = events.filter((event) => 'error' in event || event.choices?.some((choice) => choice.finish_reason));
    expect(ends).toMatchObject([{ error: named }]);
  });

  test('a complete constraint ends the reply even if a mask excludes the end token', async () => {
    service.prefer({ a: 1, b: 0 });
    const constraint = { structured_outputs: { regex: 'ab' } };
    expect(await service.content({ ...GREEDY, ...constraint, allowed_token_ids: [A, B] })).toBe('ab');
    expect(await service.content({ ...GREEDY, ...constraint, bad_words: ['<|im_end|>', '<|end|>'] })).toBe('ab');
  });

  test('a beam search heeds no masks, and has none that could leave nothing', async () => {
    service.prefer({ a: 1, b: 0 });
    const masks = { allowed_token_ids: [B], bad_words: ['b'], min_tokens: 2 };
    const { choices } = await service.answer({ use_beam_search: true, n: 2, max_tokens: 3, ...masks });
    expect(choices.map(({ message }) => message.content)).toHaveLength(2);
  });
});

describe('the draw', () => {
  const three = { a: Math.log(0.5), b: Math.log(0.3), c: Math.log(0.2) };

  test('temperature 0 takes the likeliest, and 0.01 nearly so; high ones draw all', async () => {
    service.prefer(three);
    expect(await drawn({})).toBe('abc');
    expect(await service.content({ ...GREEDY, top_p: 0.1, top_k: 2, min_p: 0.5 })).toBe('aaaaa');
    expect(await drawn({ temperature: 0.001 })).toBe('a');
    // 0.01 and not 0: a hundredth of a nat is one at that temperature.
    service.prefer({ a: 0.01, b: 0 });
    expect(await drawn({ temperature: 0.001 })).toBe('ab');
  });

  test('top_k keeps k and the ties of the k-th; 0, -1 and more than there are keep all', async () => {
    service.prefer(three);
    expect(await drawn({ top_k: 1 })).toBe('a');
    expect(await drawn({ top_k: 2 })).toBe('ab');
    for (const all of [0, -1, 1_000_000]) expect(await drawn({ top_k: all })).toBe('abc');
    service.prefer({ a: 1, b: 0, c: 0 });
    expect(await drawn({ top_k: 2 })).toBe('abc');
  });

  test('top_p keeps a token while those above it have less', async () => {
    service.prefer(three);
    expect(await drawn({ top_p: 0.5 })).toBe('a');
    expect(await drawn({ top_p: 0.51 })).toBe('ab');
    expect(await drawn({ top_p: 0.81 })).toBe('abc');
    // Relative to the tokens that top_k kept, where a has 0.625.
    expect(await drawn({ top_p: 0.6, top_k: 2 })).toBe('a');
  });

  test('min_p is a share of the likeliest, after temperature', async () => {
    service.prefer(three);
    expect(await drawn({ min_p: 0.5 })).toBe('ab');
    expect(await drawn({ min_p: 0.61 })).toBe('a');
    // At temperature 2 the shares are the square roots: b has 0.77 of a, c 0.63.
    expect(await drawn({ min_p: 0.61, temperature: 2 })).toBe('abc');
  });

  test('top_n_sigma counts standard deviations of the logits that are not masked, at any temperature', async () => {
    service.prefer(three);
    const fields = { allowed_token_ids: [A, B, C] };
    // ln 0.5, ln 0.3 and ln 0.2 have σ = 0.375: b is 1.36 σ below a, c 2.44 σ.
    for (const temperature of [0.5, 1, 2]) {
      expect(await drawn({ ...fields, temperature, top_n_sigma: 1.3 })).toBe('a');
      expect(await drawn({ ...fields, temperature, top_n_sigma: 1.4 })).toBe('ab');
      expect(await drawn({ ...fields, temperature, top_n_sigma: 2.5 })).toBe('abc');
    }
    expect(await drawn({ ...fields, top_n_sigma: 0 })).toBe('abc');
    // The narrower of two cuts applies.
    expect(await drawn({ ...fields, top_n_sigma: 1.4, top_k: 1 })).toBe('a');
    expect(await service.refusal({ top_n_sigma: -1 })).toBe('400 top_n_sigma');
  });

  test('choice i of a seed is the choice of seed + i', async () => {
    service.inference.model.setModel((_context, row) => void row.fill(0));
    const ids = async (fields: object) =>
      (await service.answer({ max_tokens: 8, return_token_ids: true, ...fields })).choices.map(
        (choice) => choice.token_ids,
      );
    const [first, second] = await ids({ seed: 5, n: 2 });
    expect([[first], [second]]).toEqual([await ids({ seed: 5 }), await ids({ seed: 6 })]);
    expect(first).not.toEqual(second);
  });
});

describe('refused if the vocabulary is known', () => {
  // prettier-ignore
  test.each<[Record<string, unknown>, string]>([
    [{ logit_bias: { '-1': 1 } }, '400 logit_bias'],
    [{ logit_bias: { '261': 1 } }, '400 logit_bias'],
    [{ stop_token_ids: [261] }, '400 stop_token_ids'],
    [{ allowed_token_ids: [] }, '400 allowed_token_ids'],
    [{ allowed_token_ids: [261] }, '400 allowed_token_ids'],
    [{ bad_words: ['  '] }, '400 bad_words'],
  ])('%j: %s, also as a stream', async (fields, expected) => {
    expect(await service.refusal(fields)).toBe(expected);
    expect(await service.refusal({ ...fields, stream: true })).toBe(expected);
  });
});

test('logit_bias of more entries than there are tokens is refused with the limit and their number', async () => {
  const logit_bias = Object.fromEntries(Array.from({ length: 262 }, (_, id) => [`0${id}`, 1]));
  const response = await service.server.chat({ logit_bias });
  expect(response.json<{ error: { message: string } }>().error.message).toBe(
    '`logit_bias` must hold at most 261 entries, one per token of the vocabulary, got 262',
  );
});

test('min_tokens keeps the end and every stop id away', async () => {
  service.prefer({ [END]: 9, b: 5, a: 0 });
  expect(await service.reply({ ...GREEDY, min_tokens: 2 })).toMatchObject({ content: 'bb', reason: 'stop' });
  expect(await service.reply({ ...GREEDY, min_tokens: 2, stop_token_ids: [B] })).toMatchObject({ content: 'aa' });
  // Under ignore_eos the end would not end the reply, but it is still excluded.
  const open = { ignore_eos: true, skip_special_tokens: false, max_tokens: 3 };
  expect(await service.content({ ...GREEDY, ...open, min_tokens: 2 })).toBe('bb<|im_end|>');
});
