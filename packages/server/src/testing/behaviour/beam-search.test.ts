/**
 * Reference §9: beam search through the whole service. The engine's tests compare its result with the
 * definition.
 */
import { afterAll, beforeAll, describe, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import { END, ScriptedService } from '../scripted-service.ts';
import { readEvents } from '../test-server.ts';

let service: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open({ contextLength: 100 });
});
afterAll(() => service.close());

/**
 * a (0.6) is followed by three that are equal, b (0.4) by x: `bx` (0.4) beats `ax` (0.2), which beats it at
 * the first step.
 */
const tree = (reply: string) => {
  if (reply === '') return { a: Math.log(0.6), b: Math.log(0.4) };
  return reply === 'b' ? { x: 0 } : { x: 0, y: 0, z: 0 };
};
const BEAMS = { use_beam_search: true, n: 2, max_tokens: 2, temperature: 0 };
const contents = async (fields: Record<string, unknown> = {}) =>
  (await service.answer({ ...BEAMS, ...fields })).choices.map(({ message }) => message.content);

describe('beams', () => {
  beforeAll(() => service.prefer(tree));

  test('are the likeliest replies, best first, W of them, also at temperature 0', async () => {
    expect(await contents()).toEqual(['bx', 'ax']);
    expect(await contents({ n: null })).toEqual(['ax']);
  });

  test('heed nothing that would change a sample', async () => {
    const heedless = {
      seed: 3, stop: 'x', stop_token_ids: [120], presence_penalty: 2, frequency_penalty: 2, repetition_penalty: 9,
      top_p: 0.1, top_k: 1, min_p: 1, min_tokens: 1, logit_bias: { '121': 100 }, bad_words: ['x'], allowed_token_ids: [121],
      structured_outputs: { regex: 'q+' }, repetition_detection: { max_pattern_size: 1, min_count: 2 }, prompt_logprobs: 1, priority: 3,
    }; // prettier-ignore
    const plain = await service.answer(BEAMS);
    const same = await service.answer({ ...BEAMS, ...heedless });
    expect(same.choices).toEqual(plain.choices);
    expect(same.prompt_logprobs).toBeNull();
    expect(await contents({ response_format: { type: 'json_object' } })).toEqual(['bx', 'ax']);
  });

  test('have raw log-probabilities; usage sums the tokens of those returned', async () => {
    const { choices, usage } = await service.answer({ ...BEAMS, logprobs: true, return_token_ids: true });
    const [best] = choices[0]!.logprobs!.content;
    expect(best!.logprob).toBeCloseTo(Math.log(0.4), 5);
    expect(choices.map((choice) => choice.token_ids)).toEqual([
      [98, 120],
      [97, 120],
    ]);
    expect(usage.completion_tokens).toBe(4);
  });

  test('are streamed whole: role chunks, then a chunk each', async () => {
    const { events, isDone } = readEvents((await service.server.chat({ ...BEAMS, stream: true })).body);
    const outputs = events.flatMap((event) => event.choices ?? []);
    expect(outputs.map(({ index, delta, finish_reason: reason }) => [index, delta.content, reason])).toEqual([
      [0, '', null],
      [1, '', null],
      [0, 'bx', 'length'],
      [1, 'ax', 'length'],
    ]);
    expect(isDone).toBe(true);
  });

  test('more than 10 are refused', async () => {
    expect(await service.refusal({ ...BEAMS, n: 11 })).toBe('400 n');
    expect((await service.answer({ ...BEAMS, n: 10 })).choices).toHaveLength(10);
  });

  test('without max_tokens they fill the context', async () => {
    const { usage, choices } = await service.answer({ ...BEAMS, n: 1, max_tokens: null });
    expect(usage.prompt_tokens + usage.completion_tokens).toBe(100);
    expect(choices[0]!.finish_reason).toBe('length');
  });
});

describe('the end token', () => {
  beforeAll(() => service.prefer((reply) => (reply.length < 2 ? { a: 0, [END]: -0.5 } : { a: 0, [END]: -1.4 })));
  const beams = async (fields: Record<string, unknown> = {}) =>
    (
      await service.answer({ ...BEAMS, max_tokens: 3, skip_special_tokens: false, return_token_ids: true, ...fields })
    ).choices.map((choice) => [
      choice.message.content,
      choice.finish_reason,
      choice.stop_reason,
      choice.token_ids!.length,
    ]);

  test('completes a beam with its id as the reason, and counts if it is shown', async () => {
    // Σ logprobs: the end at once -0.97, after a -1.45, after three a -1.17. The search still continues to
    // max_tokens.
    const [first, second] = await beams({ length_penalty: 0 });
    expect([first, second]).toEqual([
      ['', 'stop', 258, 0],
      ['aaa', 'length', null, 3],
    ]);
    expect((await beams({ length_penalty: 0, include_stop_str_in_output: true }))[0]).toEqual([END, 'stop', 258, 1]);
  });

  test('is a token like any other under ignore_eos', async () => {
    expect((await beams({ ignore_eos: true }))[0]).toEqual(['aaa', 'length', null, 3]);
  });

  test('length_penalty divides by the length, the prompt’s included: long prompts take its power', async () => {
    // -0.97 / P^λ against -1.17 / (P + 3)^λ: for P = 24 the longer one wins from λ = 1.55 on, for P = 79 from λ = 4.9 on.
    const best = async (length_penalty: number, content = 'hello') =>
      (await beams({ length_penalty, messages: [{ role: 'user', content }] }))[0]![0];
    expect([await best(0), await best(1), await best(2)]).toEqual(['', '', 'aaa']);
    expect(await best(2, 'h'.repeat(60))).toBe('');
  });
});
