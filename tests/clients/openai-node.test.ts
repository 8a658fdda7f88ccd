import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { Trainyard } from '@trainyard/sdk';

import { ownService, type OwnService } from '../../scripts/own-service.ts';

let service: OwnService;
let openai: OpenAI;
let base: string;

const messages = [{ role: 'user' as const, content: 'What is the capital of France?' }];

beforeAll(async () => {
  service = await ownService();
  openai = new OpenAI({ baseURL: service.url, apiKey: service.apiKey, maxRetries: 0 });
  base = (await openai.models.list()).data[0]!.id;
});

afterAll(async () => {
  await service.close();
});

describe('the unmodified openai client (Node)', () => {
  it('lists models', async () => {
    const { data } = await openai.models.list();
    expect(data[0]).toMatchObject({ object: 'model', id: 'HuggingFaceTB/SmolLM2-135M-Instruct' });
  });

  it('completes a chat', async () => {
    const answer = await openai.chat.completions.create({ model: base, messages, temperature: 0, max_tokens: 16 });
    expect(answer.choices[0]!.message.content).toContain('Paris');
    expect(answer.choices[0]!.finish_reason).toBe('stop');
    expect(answer.usage!.total_tokens).toBe(answer.usage!.prompt_tokens + answer.usage!.completion_tokens);
  });

  it('streams the same text as the whole answer', async () => {
    const request = { model: base, messages, temperature: 0.7, seed: 11, max_tokens: 24 };
    const whole = await openai.chat.completions.create(request);
    const stream = await openai.chat.completions.create({
      ...request,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    let finishReason: string | null = null;
    let usage: OpenAI.CompletionUsage | null = null;
    let numChunks = 0;
    for await (const chunk of stream) {
      numChunks += 1;
      text += chunk.choices[0]?.delta.content ?? '';
      finishReason = chunk.choices[0]?.finish_reason ?? finishReason;
      usage = chunk.usage ?? usage;
    }
    expect(text).toBe(whole.choices[0]!.message.content);
    expect(finishReason).toBe(whole.choices[0]!.finish_reason);
    expect(usage!.completion_tokens).toBe(whole.usage!.completion_tokens);
    expect(numChunks).toBeGreaterThan(3);
  });

  it('assembles a stream with the helper that folds chunks', async () => {
    const final = await openai.chat.completions
      .stream({ model: base, messages, temperature: 0, max_tokens: 16, n: 1 })
      .finalChatCompletion();
    expect(final.choices[0]!.message.content).toContain('Paris');
  });

  it.each([
    ['required' as const, 'tool_calls'],
    [{ type: 'function' as const, function: { name: 'weather' } }, 'stop'],
  ])('reads the call that tool_choice %j requires, streamed and whole alike', async (toolChoice, finishReason) => {
    const city = { type: 'string', enum: ['Paris', 'Rome'] };
    const request = {
      model: base,
      messages: [{ role: 'user' as const, content: 'What is the weather in Paris?' }],
      tools: [
        {
          type: 'function' as const,
          function: { name: 'weather', parameters: { type: 'object', properties: { city }, required: ['city'] } },
        },
      ],
      tool_choice: toolChoice,
      parallel_tool_calls: false,
      seed: 3,
      max_tokens: 100,
    };
    const [whole] = (await openai.chat.completions.create(request)).choices;
    const [streamed] = (await openai.chat.completions.stream(request).finalChatCompletion()).choices;
    for (const choice of [whole, streamed]) {
      expect(choice?.finish_reason).toBe(finishReason);
      const [call, ...others] = choice?.message.tool_calls ?? [];
      if (call?.type !== 'function') throw new Error('no function was called');
      expect([others, call.function.name]).toEqual([[], 'weather']);
      expect(call.id).toMatch(/^chatcmpl-tool-[0-9a-f]{16}$/);
      expect(['Paris', 'Rome']).toContain((JSON.parse(call.function.arguments) as { city: unknown }).city);
    }
    expect(called(streamed)).toBe(called(whole));
  });

  it('samples n=8 with log-probabilities of every token', async () => {
    const answer = await openai.chat.completions.create({
      model: base,
      messages,
      n: 8,
      seed: 5,
      max_tokens: 12,
      logprobs: true,
      top_logprobs: 3,
    });
    expect(answer.choices.map((choice) => choice.index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    let numEntries = 0;
    for (const choice of answer.choices) {
      const entries = choice.logprobs!.content!;
      numEntries += entries.length;
      for (const entry of entries) {
        expect(entry.logprob).toBeLessThanOrEqual(0);
        expect(entry.top_logprobs).toHaveLength(3);
        // vLLM's order: the sampled token first.
        expect(entry.top_logprobs[0]!.logprob).toBe(entry.logprob);
      }
      const bytes = Buffer.from(entries.flatMap((entry) => entry.bytes ?? []));
      expect(bytes.toString('utf8')).toContain(choice.message.content!.trimEnd());
    }
    expect(numEntries).toBe(answer.usage!.completion_tokens);
    expect(new Set(answer.choices.map((choice) => choice.message.content)).size).toBeGreaterThan(1);
  });

  it('counts the prompt of equal requests once', async () => {
    const long = [{ role: 'user' as const, content: `${'The log of the harbour is long. '.repeat(40)}Summarise it.` }];
    await openai.chat.completions.create({ model: base, messages: long, max_tokens: 1 });
    const again = await openai.chat.completions.create({ model: base, messages: long, max_tokens: 1 });
    expect(again.usage!.prompt_tokens_details!.cached_tokens).toBe(again.usage!.prompt_tokens - 1);
  });

  it('ends a request when the client aborts it', async () => {
    const controller = new AbortController();
    const stream = await openai.chat.completions.create(
      {
        model: base,
        messages,
        max_tokens: 2_000,
        stream: true,
        ignore_eos: true,
      } as OpenAI.ChatCompletionCreateParamsStreaming,
      {
        signal: controller.signal,
      },
    );
    let numChunks = 0;
    for await (const _chunk of stream) {
      numChunks += 1;
      if (numChunks === 4) controller.abort();
    }
    expect(numChunks).toBeLessThan(200);
    // The sequence is gone: a request that needs the whole machine can run.
    const next = await openai.chat.completions.create({ model: base, messages, max_tokens: 4 });
    expect(next.choices).toHaveLength(1);
  });

  it('raises typed errors', async () => {
    await expect(openai.chat.completions.create({ model: 'nobody/knows/this', messages })).rejects.toBeInstanceOf(
      OpenAI.NotFoundError,
    );
    await expect(openai.chat.completions.create({ model: base, messages, temperature: -1 })).rejects.toBeInstanceOf(
      OpenAI.BadRequestError,
    );
    await expect(
      new OpenAI({ baseURL: service.url, apiKey: 'wrong', maxRetries: 0 }).models.list(),
    ).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    await expect(
      openai.chat.completions.create({ model: base, messages, n: 2, temperature: 0 }),
    ).rejects.toBeInstanceOf(OpenAI.BadRequestError);
  });
});

describe('names of trained models', () => {
  it('carry token ids and log-probabilities by default', async () => {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
    const model = await client.models.register({ project: 'conformance', name: 'fresh', base_model: base });
    const names = [
      `wandb-artifact:///${model.entity}/conformance/fresh`,
      `wandb-artifact:///${model.entity}/conformance/fresh:step0`,
      'fresh',
      `${model.entity}/conformance/fresh:step0`,
    ];
    for (const name of names) {
      const answer = await openai.chat.completions.create({ model: name, messages, max_tokens: 40, temperature: 0 });
      const choice = answer.choices[0]! as OpenAI.ChatCompletion.Choice & { token_ids: number[] };
      expect(answer.model).toBe(`${model.entity}/conformance/fresh:step0`);
      expect(choice.token_ids).toHaveLength(answer.usage!.completion_tokens);
      // The end of turn is an entry, too.
      expect(choice.finish_reason).toBe('stop');
      expect(choice.logprobs!.content!.map((entry) => entry.token)).toEqual(
        choice.token_ids.map((id) => `token_id:${id}`),
      );
      expect(choice.logprobs!.content!.at(-1)!.token).toBe('token_id:2');
    }
    await client.models.delete(model.id);
    await expect(openai.chat.completions.create({ model: 'fresh', messages })).rejects.toBeInstanceOf(
      OpenAI.NotFoundError,
    );
  });
});

function called(choice: OpenAI.ChatCompletion.Choice | undefined): string | undefined {
  const call = choice?.message.tool_calls?.[0];
  return call?.type === 'function' ? call.function.arguments : undefined;
}
