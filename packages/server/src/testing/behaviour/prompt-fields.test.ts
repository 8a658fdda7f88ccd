/** Reference §1.4 and `reasoning_effort`: effects of each field on the prompt, or on the request's handling. */
import { afterAll, beforeAll, describe, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import { ScriptedService } from '../scripted-service.ts';

/** Renders its variables. */
const SHOWN = `{{ documents | tojson }}|{{ reasoning_effort }}|{{ enable_thinking }}|{{ add_generation_prompt }}|{{ x }}`;

let service: ScriptedService;
let variables: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open();
  variables = await ScriptedService.open({ template: SHOWN, policy: 'fcfs', runsRequestTemplates: false });
  service.setReply('!');
});
afterAll(async () => {
  await service.close();
  await variables.close();
});

const user = (content: string) => ({ role: 'user', content });
const assistant = (content: string) => ({ role: 'assistant', content });
const OPEN = { add_generation_prompt: false, continue_final_message: true };

describe('template variables', () => {
  // prettier-ignore
  test.each([
    [{}, 'null|||True|'],
    [{ documents: [{ title: 'a', text: 'b' }] }, '[{"title": "a", "text": "b"}]|||True|'],
    [{ reasoning_effort: 'low' }, 'null|low|True|True|'],
    [{ reasoning_effort: 'none' }, 'null|none|False|True|'],
    [{ reasoning_effort: 'none', chat_template_kwargs: { enable_thinking: true } }, 'null|none|True|True|'],
    [{ chat_template_kwargs: { x: 5, unknown: 1 } }, 'null|||True|5'],
    [{ chat_template_kwargs: { reasoning_effort: 'high', documents: [{ a: 'b' }] } }, '[{"a": "b"}]|high||True|'],
    [{ chat_template_kwargs: { reasoning_effort: 'high', documents: [] }, reasoning_effort: 'low', documents: [{ a: 'c' }] }, '[{"a": "c"}]|low|True|True|'],
    [{ chat_template_kwargs: { add_generation_prompt: true }, add_generation_prompt: false }, 'null|||False|'],
    [{ chat_template_kwargs: { add_generation_prompt: false } }, 'null|||True|'],
  ])('%j', async (fields, prompt) => {
    expect(await variables.prompt(fields)).toBe(prompt);
  });

  test('that would change the rendered prompt are refused, other efforts too', async () => {
    for (const name of ['chat_template', 'tokenize'])
      expect(await service.refusal({ chat_template_kwargs: { [name]: 'x' } })).toBe('400 chat_template_kwargs');
    expect(await service.refusal({ reasoning_effort: 'extreme' })).toBe('400 reasoning_effort');
  });
});

describe('values for the template', () => {
  const range = (length: number) => Array.from({ length }, (_, index) => index);
  const tools = [{ type: 'function', function: { name: 'f', parameters: { enum: range(131_072) } } }];
  test.each<[string, Record<string, unknown>]>([
    ['documents', { documents: range(65_537).map(() => ({ text: '' })) }],
    ['chat_template_kwargs', { chat_template_kwargs: { x: range(131_072) } }],
    ['tools', { tools }],
  ])('that are millions are refused before the host has to read them: %s', async (name, fields) => {
    expect(await service.refusal(fields)).toBe(`400 ${name}`);
  });
});

describe('the end of the prompt', () => {
  test('is the opening of a reply, or of none', async () => {
    expect(await service.prompt()).toBe('<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n');
    const { choices } = await service.answer({ add_generation_prompt: false });
    expect(await service.prompt({ add_generation_prompt: false })).toBe('<|im_start|>user\nhello<|im_end|>\n');
    expect(choices[0]!.message.role).toBe('user');
  });

  test('is that of the last message, right-trimmed, which the reply continues', async () => {
    const messages = [user('a'), assistant('b  ')];
    expect(await service.prompt({ ...OPEN, messages })).toBe('<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb');
    expect(await service.content({ ...OPEN, messages })).toBe('!');
    expect(await service.content({ ...OPEN, messages, echo: true })).toBe('b  !');
  });

  test('continue_final_message is refused without its counterpart, and if the template leaves the message out', async () => {
    expect(await service.refusal({ continue_final_message: true })).toBe('400 continue_final_message');
    expect(await variables.refusal(OPEN)).toBe('400 continue_final_message');
  });
});

describe('echo', () => {
  test('does nothing before a reply of another role, but for prompt_logprobs', async () => {
    const { choices, prompt_logprobs: prompt } = await service.answer({ echo: true });
    expect(choices[0]!.message.content).toBe('!');
    expect(prompt![0]).toBeNull();
    expect(Object.keys(prompt![1]!)).toHaveLength(1);
  });

  test('an assistant’s last message is in front although a reply of its own was opened', async () => {
    const messages = [user('a'), assistant('b')];
    expect(await service.content({ messages, echo: true })).toBe('b!');
  });
});

describe('chat_template', () => {
  test('takes the place of the model’s own', async () => {
    expect(await service.prompt({ chat_template: '{{ messages[0].content | upper }}' })).toBe('HELLO');
  });
  test('that fails is refused, and any template if they are disabled', async () => {
    expect(await service.refusal({ chat_template: '{{ raise_exception("no") }}' })).toBe('400 chat_template');
    expect(await service.refusal({ chat_template: '{% if' })).toBe('400 chat_template');
    expect(await variables.refusal({ chat_template: 'x' })).toBe('400 chat_template');
  });
});

describe('the way of a request', () => {
  test('priority is honoured, by header before body; a service in order of arrival refuses another than 0', async () => {
    await service.answer({ priority: -2 });
    expect(service.inference.lastRequest.priority).toBe(-2);
    await service.server.chat({ priority: -2 }, { 'x-vllm-priority': '7' });
    expect(service.inference.lastRequest.priority).toBe(7);
    expect((await service.server.chat({}, { 'x-vllm-priority': 'high' })).statusCode).toBe(400);
    expect(await variables.refusal({ priority: 1 })).toBe('400 priority');
  });

  test('request_id is in the answer’s id, the header wins, and two may have the same at once', async () => {
    const twins = await Promise.all([service.answer({ request_id: 'r' }), service.answer({ request_id: 'r' })]);
    expect(twins.map(({ id }) => id)).toEqual(['chatcmpl-r', 'chatcmpl-r']);
    const { id } = (await service.server.chat({ request_id: 'r' }, { 'x-request-id': 'h' })).json<{ id: string }>();
    expect(id).toBe('chatcmpl-h');
    const fresh = [(await service.answer()).id, (await service.answer()).id];
    for (const other of fresh) expect(other).toMatch(/^chatcmpl-.{16,}$/);
    expect(fresh[0]).not.toBe(fresh[1]);
  });

  test('return_token_ids gives those of the prompt and of each reply', async () => {
    const { prompt_token_ids: prompt, choices } = await service.answer({ return_token_ids: true, n: 2 });
    expect(service.inference.model.tokenizer.decode(prompt!)).toBe(await service.prompt());
    expect(choices.map((choice) => choice.token_ids)).toEqual([
      [33, 258],
      [33, 258],
    ]);
    const without = await service.answer();
    expect([without.prompt_token_ids, without.choices[0]!.token_ids]).toEqual([null, null]);
  });

  test('equal prompts share the cache, unless their salts differ', async () => {
    const cached = async (cache_salt: string) => {
      const messages = [user('a prompt of its own')];
      return (await service.answer({ messages, cache_salt })).usage.prompt_tokens_details!.cached_tokens;
    };
    expect(await cached('one')).toBe(0);
    expect(await cached('one')).toBeGreaterThan(0);
    expect(await cached('two')).toBe(0);
    expect(await service.refusal({ cache_salt: 'x'.repeat(129) })).toBe('400 cache_salt');
    for (const salt of ['a@b', 'a\\b', 'a\0b'])
      expect(await service.refusal({ cache_salt: salt })).toBe('400 cache_salt');
  });

  test('prompt_logprobs compute the prompt, whether or not it is cached', async () => {
    const usage = async (fields: Record<string, unknown>) =>
      (await service.answer(fields)).usage.prompt_tokens_details!.cached_tokens;
    await service.answer();
    expect(await usage({})).toBeGreaterThan(0);
    expect(await usage({ prompt_logprobs: 0 })).toBe(0);
  });

  test('logprob_token_ids returns the logprobs of chosen ids, in their order', async () => {
    const answer = await service.answer({ logprobs: true, top_logprobs: 1, logprob_token_ids: [98, 5], max_tokens: 1 });
    const [entry] = answer.choices[0]!.logprobs!.content;
    expect(entry!.top_logprobs.map(({ token, logprob }) => [token, Math.round(logprob)])).toEqual([
      ['!', 0],
      ['b', -50],
      ['\u0005', -50],
    ]);
    expect(await service.refusal({ logprob_token_ids: [1] })).toBe('400 logprob_token_ids');
    expect(await service.refusal({ logprobs: true, logprob_token_ids: [100_000] })).toBe('400 logprob_token_ids');
    expect(await service.refusal({ logprobs: true, logprob_token_ids: Array.from({ length: 129 }, () => 1) })).toBe(
      '400 logprob_token_ids',
    );
    for (const nothing of [[], null]) await service.answer({ logprob_token_ids: nothing });
  });

  test('thinking_token_budget ends the reasoning, and has no effect without any', async () => {
    const thinker = await ScriptedService.open({ template: 'thinking' });
    try {
      thinker.setReply('<think>abcdef</think>Yes');
      const message = async (fields: Record<string, unknown>) => (await thinker.answer(fields)).choices[0]!.message;
      expect(await message({ thinking_token_budget: 3 })).toMatchObject({ reasoning: 'abc', content: 'ef</think>Yes' });
      const noThoughts = await message({ thinking_token_budget: 0 });
      expect(noThoughts).toMatchObject({ reasoning: null, content: 'bcdef</think>Yes' });
      for (const budget of [-1, null, 100])
        expect(await message({ thinking_token_budget: budget })).toMatchObject({ reasoning: 'abcdef', content: 'Yes' });
      const usage = (await thinker.answer({ thinking_token_budget: 3 })).usage;
      expect(usage.completion_tokens_details).toEqual({ reasoning_tokens: 3 });
    } finally {
      await thinker.close();
    }
    expect((await service.answer({ thinking_token_budget: 0 })).choices[0]!.message.content).toBe('!');
  });

  test('fields about other machines, media and samplers change nothing', async () => {
    const asked = async (fields: Record<string, unknown>) => {
      await service.answer(fields);
      const { requestId: _id, ...request } = service.inference.lastRequest;
      return request;
    };
    const plain = await asked({});
    for (const fields of [
      { user: 'me' },
      { session_id: 's' },
      { mm_processor_kwargs: { a: 1 } },
      { media_io_kwargs: { a: 1 } },
      { kv_transfer_params: { a: { b: 1 } } },
      { ec_transfer_params: { a: 1 } },
      { vllm_xargs: { a: 'x', b: 1, c: ['y', 2] } },
      { best_of: 3, early_stopping: true, logits_processors: [] },
    ])
      expect(await asked(fields)).toEqual(plain);
  });
});
