/**
 * Random combinations of sampling fields: texts, token ids, log-probabilities and usage of an answer agree
 * with each other, and with those of its stream.
 */
import type { ChatCompletion } from '@trainyard/protocol';
import fc from 'fast-check';
import { afterAll, beforeAll, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import { GuestRefusal } from '../guest-refusal.ts';
import { ScriptedService } from '../scripted-service.ts';
import { readEvents } from '../test-server.ts';

const END_ID = 258;
let service: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open();
  // A few bytes, including half a character, and the end, with likelihoods from a hash of the last tokens.
  service.inference.model.setModel(({ promptIds, replyIds }, row) => {
    row.fill(-30);
    const hash = [...promptIds, ...replyIds].slice(-6).reduce((sum, id) => (sum * 31 + id) % 1009, 5);
    for (const [at, byte] of Buffer.from('abcdé X').entries()) row[byte] = ((hash * (at + 3)) % 17) / 4;
    row[END_ID] = ((hash * 5) % 19) / 4 - 1;
  });
});
afterAll(() => service.close());

const shared = {
  max_tokens: fc.constantFrom(3, 5, 12),
  temperature: fc.constantFrom(0.3, 1, 1.5),
  seed: fc.constant(7),
  n: fc.constantFrom(1, 2, 3),
  top_logprobs: fc.constantFrom(0, 1, 4),
};
const optional = fc.record(
  {
    stop: fc.constantFrom(['ab'], ['a', 'cd'], ['é'], ['b c']),
    include_stop_str_in_output: fc.constant(true),
    min_tokens: fc.constantFrom(1, 3),
    ignore_eos: fc.constant(true),
    stop_token_ids: fc.constantFrom([97], [98, END_ID]),
    bad_words: fc.constantFrom(['a'], ['ab', 'c']),
    logit_bias: fc.constant({ 97: 3 }),
    logprobs_mode: fc.constant('processed_logprobs'),
    prompt_logprobs: fc.constant(0),
    use_beam_search: fc.constant(true),
  },
  { requiredKeys: [] },
);

test('of any fields', async () => {
  const any = fc.tuple(fc.record(shared), optional);
  await fc.assert(
    fc.asyncProperty(any, async ([fields, others]) => {
      const asked = { ...fields, ...others, logprobs: true, return_token_ids: true, return_tokens_as_token_ids: true };
      const answer = await service.answer(asked).catch(refusedByGuest);
      if (answer === null) return;
      checkAnswer(answer, asked);
      expect(streamed((await service.server.chat({ ...asked, stream: true })).body, answer)).toEqual(told(answer));
    }),
    { numRuns: 100, seed: 1 },
  );
});

/** Null if the back end may refuse the field. */
function refusedByGuest(error: unknown): null {
  if (error instanceof GuestRefusal) return null;
  throw error;
}

function checkAnswer(
  { choices, usage }: ChatCompletion,
  asked: { n: number; top_logprobs: number; use_beam_search?: boolean },
): void {
  expect(choices).toHaveLength(asked.n);
  expect(usage.completion_tokens).toBe(choices.flatMap((choice) => choice.token_ids!).length);
  expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens);
  for (const { message, logprobs, token_ids: ids, finish_reason: reason, stop_reason: stop } of choices) {
    const entries = logprobs!.content!;
    expect(entries.map(({ token }) => token)).toEqual(ids!.map((id) => `token_id:${id}`));
    for (const { token, logprob, top_logprobs: top } of entries) {
      expect(logprob).toBeLessThan(1e-5);
      expect(new Set(top.map((one) => one.token)).size).toBe(top.length);
      if (asked.use_beam_search !== true) expect(top).toHaveLength(asked.top_logprobs);
      if (top.length > 0) expect(top[0]).toMatchObject({ token, logprob });
    }
    const text = service.inference.model.tokenizer.decode(ids!, { skipSpecial: true });
    if (typeof stop === 'string') expect(text).toContain(stop);
    if (reason === 'length') expect(message.content).toBe(text);
    else expect(text.startsWith(message.content!)).toBe(true);
  }
}

type Told = [text: string | null, ids: unknown, entries: unknown, reason: unknown, stop: unknown][];

function told({ choices }: ChatCompletion): Told {
  return choices.map(({ message, token_ids: ids, logprobs, finish_reason: reason, stop_reason: stop }) => [
    message.content,
    ids,
    logprobs!.content,
    reason,
    stop,
  ]);
}

function streamed(body: string, { choices }: ChatCompletion): Told {
  const { events, isDone } = readEvents(body);
  expect(isDone).toBe(true);
  const outputs = events.flatMap((event) => event.choices ?? []);
  return choices.map(({ index }) => {
    const own = outputs.filter((output) => output.index === index);
    const ends = own.filter((output) => output.finish_reason !== null && output.finish_reason !== undefined);
    expect(ends).toHaveLength(1);
    return [
      own.map(({ delta }) => delta.content ?? '').join(''),
      own.flatMap(({ token_ids: ids }) => ids ?? []),
      own.flatMap(({ logprobs }) => logprobs?.content ?? []),
      ends[0]!.finish_reason,
      ends[0]!.stop_reason ?? null,
    ];
  });
}
