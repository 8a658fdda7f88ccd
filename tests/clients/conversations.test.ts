/** Conversations with the unmodified SDKs of OpenAI. */
import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import type { OwnService } from '../../scripts/own-service.ts';
import { smallService } from '../support/small-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const TIMEOUT_MS = 300_000;
const MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';

const hasPython = await hasPythonEnvironment(ROOT, 'clients');
if (!hasPython && process.env['CI'] !== undefined) {
  throw new Error('CI must run the Python clients: "node scripts/bootstrap.mjs --python" shows the reason');
}

let service: OwnService;
let openai: OpenAI;
beforeAll(async () => {
  service = await smallService();
  openai = new OpenAI({ baseURL: service.url, apiKey: service.apiKey, maxRetries: 0 });
}, TIMEOUT_MS);
afterAll(() => service.close());

const ask = { model: MODEL, max_output_tokens: 16, temperature: 0 };

describe('the unmodified openai client (Node)', () => {
  it('makes, changes, reads and deletes conversations and their items', async () => {
    const { conversations } = openai;
    expect(await conversations.create()).toMatchObject({ object: 'conversation', metadata: {} });
    const items = ['One.', 'Two.', 'Three.'].map((content) => ({
      type: 'message' as const,
      role: 'user' as const,
      content,
    }));
    const { id } = await conversations.create({ items: items.slice(0, 1), metadata: { topic: 'numbers' } });
    expect((await conversations.retrieve(id)).metadata).toEqual({ topic: 'numbers' });
    expect((await conversations.update(id, { metadata: { topic: 'counting' } })).metadata).toEqual({
      topic: 'counting',
    });
    const include = ['message.output_text.logprobs' as const];
    const added = await conversations.items.create(id, { items: items.slice(1), include });
    expect([added.data.length, added.has_more]).toEqual([2, false]);
    const listed = await Array.fromAsync(conversations.items.list(id, { order: 'asc', limit: 1, include }));
    expect(listed.map((item) => (item.type === 'message' ? item.content : null))).toEqual(
      ['One.', 'Two.', 'Three.'].map((text) => [{ type: 'input_text', text }]),
    );
    const [first] = listed;
    expect(await conversations.items.retrieve(first!.id!, { conversation_id: id })).toEqual(first);
    expect(await conversations.items.delete(first!.id!, { conversation_id: id })).toMatchObject({ id });
    expect((await conversations.items.list(id)).data.map((item) => item.id)).toEqual(
      listed
        .slice(1)
        .map((item) => item.id)
        .toReversed(),
    );
    expect(await conversations.delete(id)).toEqual({ id, object: 'conversation.deleted', deleted: true });
    await expect(conversations.retrieve(id)).rejects.toBeInstanceOf(OpenAI.NotFoundError);
    await expect(openai.responses.create({ ...ask, conversation: id, input: 'x' })).rejects.toMatchObject({
      status: 404,
      param: 'conversation',
    });
  });

  it('continues them: the second turn finds the first one in the cache', async () => {
    const { id } = await openai.conversations.create({
      items: [{ type: 'message', role: 'developer', content: 'You answer in one word, and you know every capital.' }],
    });
    const first = await openai.responses.create({ ...ask, conversation: id, input: 'The capital of France?' });
    expect(first.conversation).toEqual({ id });
    const counted = await openai.responses.inputTokens.count({
      model: MODEL,
      conversation: id,
      input: 'And of Italy?',
    });
    const stream = openai.responses.stream({ ...ask, conversation: id, input: 'And of Italy?' });
    const second = await stream.finalResponse();
    expect(second.conversation).toEqual({ id });
    expect(second.usage!.input_tokens).toBe(counted.input_tokens);
    // All except the template's text after the reply, and the last sampled token, which was never computed.
    const numKnown = first.usage!.total_tokens - 2;
    expect(second.usage!.input_tokens_details.cached_tokens).toBeGreaterThanOrEqual(numKnown);
    let third = await openai.responses.create({ ...ask, conversation: { id }, input: 'Thanks.', background: true });
    while (third.status === 'queued' || third.status === 'in_progress')
      third = await openai.responses.retrieve(third.id);
    expect(third.usage!.input_tokens_details.cached_tokens).toBeGreaterThanOrEqual(second.usage!.total_tokens - 2);
    const items = await Array.fromAsync(openai.conversations.items.list(id, { order: 'asc' }));
    expect(items.map((item) => (item.type === 'message' ? item.role : item.type))).toEqual([
      'developer',
      'user',
      'assistant',
      'user',
      'assistant',
      'user',
      'assistant',
    ]);
    expect(items.slice(-1)).toEqual(third.output);
    await expect(
      openai.responses.create({ ...ask, conversation: id, previous_response_id: first.id, input: 'x' }),
    ).rejects.toMatchObject({ status: 400, param: 'conversation' });
  });
});

describe.skipIf(!hasPython)('the unmodified openai client (Python)', () => {
  it(
    'does the same, with its asynchronous client too',
    async () => {
      const { python } = pythonEnvironment(ROOT, 'clients');
      const script = join(import.meta.dirname, 'conversations_client.py');
      const { stdout } = await promisify(execFile)(python, [script, service.url, service.apiKey, MODEL], {
        timeout: TIMEOUT_MS,
      });
      expect(JSON.parse(/^REPORT (.*)$/m.exec(stdout)![1]!)).toEqual({
        created: ['conversation', {}],
        metadata: [{ topic: 'numbers' }, { topic: 'counting' }],
        added: 2,
        listed: ['One.', 'Two.', 'Three.'],
        item: 'One.',
        left: ['Three.', 'Two.'],
        deleted: true,
        errors: ['NotFoundError', 'NotFoundError', 'NotFoundError', 'BadRequestError'],
        turns: ['user', 'assistant', 'user', 'assistant', 'user', 'assistant'],
        is_named: [true, true, true],
        is_counted: true,
        is_cached: true,
        whole_turns: true,
      });
    },
    TIMEOUT_MS,
  );
});
