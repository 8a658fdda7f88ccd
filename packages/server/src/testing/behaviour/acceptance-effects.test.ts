/** Effect of the accepted vectors of section 16 of the reference on the answer. */
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import { ScriptedService } from '../scripted-service.ts';
import { readEvents } from '../test-server.ts';

let service: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open();
});
beforeEach(() => service.setReply('{"a":1}'));
afterAll(() => service.close());

test('a bias of 500 is one of 100: it lifts no token above one that leads by 101', async () => {
  const fields = { logit_bias: { 98: 500 }, temperature: 0, max_tokens: 1 };
  service.prefer({ a: 101, b: 0 });
  expect(await service.content(fields)).toBe('a');
  service.prefer({ a: 99, b: 0 });
  expect(await service.content(fields)).toBe('b');
});

test('top_logprobs null counts as 0: the sampled token only', async () => {
  const { choices } = await service.answer({ top_logprobs: null, logprobs: true });
  expect(choices[0]!.logprobs!.content).toHaveLength('{"a":1}'.length + 1);
  expect(choices[0]!.logprobs!.content!.every(({ top_logprobs: top }) => top.length === 0)).toBe(true);
});

test('prompt_logprobs true counts as 1, and 0 in a stream is never given', async () => {
  const { prompt_logprobs: prompt, usage } = await service.answer({ prompt_logprobs: true });
  expect(prompt).toHaveLength(usage.prompt_tokens);
  expect(prompt![0]).toBeNull();
  expect(Object.keys(prompt![1]!)).toHaveLength(2);
  const stream = await service.server.chat({ prompt_logprobs: 0, stream: true });
  expect(readEvents(stream.body).isDone).toBe(true);
  expect(stream.body).not.toContain('prompt_logprobs');
});

test('seed -1 is no seed: replies differ, and those of a seed do not', async () => {
  service.inference.model.setModel((_context, row) => void row.fill(0));
  const ids = async (seed: number) => (await service.answer({ seed, return_token_ids: true })).choices[0]!.token_ids;
  expect(await ids(-1)).not.toEqual(await ids(-1));
  expect(await ids(5)).toEqual(await ids(5));
});

test('repetition_detection ends a reply that repeats itself', async () => {
  service.setReply('xabababab');
  const { choices } = await service.answer({ repetition_detection: { max_pattern_size: 3, min_count: 2 } });
  expect(choices[0]).toMatchObject({
    message: { content: 'xabab' },
    finish_reason: 'repetition',
    stop_reason: 'repetition_detected',
  });
});

test('a regex holds the reply, also next to other constraints', async () => {
  expect(await service.content({ structured_outputs: { regex: 'a', _backend: 'x', bogus: 1 } })).toBe('a');
  expect(await service.content({ structured_outputs: { regex: 'b' }, response_format: { type: 'text' } })).toBe('b');
});

test('stop null, an unknown field and guided_json {} do not change the reply', async () => {
  expect(await service.content({ stop: null, foo: 'bar', guided_json: {} })).toBe('{"a":1}');
});

test('reasoning_content in a message reaches the template as reasoning', async () => {
  const chat_template = '{% for m in messages %}{{ m.reasoning }}|{{ m.reasoning_content }}{% endfor %}';
  const body = await service.answer({
    messages: [{ role: 'assistant', content: 'x', reasoning_content: 'because' }],
    chat_template,
    return_prompt_text: true,
  });
  expect(body).toMatchObject({ prompt_text: 'because|because' });
});
