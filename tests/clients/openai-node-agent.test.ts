/**
 * The unmodified `openai` client (Node) with a model that calls tools and reasons, which a small real model
 * cannot do reliably.
 */
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';

import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

let service: ScriptedServiceProcess;
let openai: OpenAI;
let model: string;
beforeAll(async () => {
  service = await scriptedService();
  ({ model } = service);
  openai = new OpenAI({ baseURL: service.url, apiKey: service.apiKey, maxRetries: 0 });
});
afterAll(async () => {
  await service.close();
});

const asks = (content: string) => [{ role: 'user' as const, content }];
const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const TOOLS = [{ type: 'function' as const, function: { name: 'weather', parameters: PARAMETERS } }];
type WithReasoning = { reasoning?: string | null };

describe('the unmodified openai client (Node), on a model that calls tools and reasons', () => {
  it.each([false, true])('runs tools until the model answers (stream: %s)', async (stream) => {
    const asked: unknown[] = [];
    const weather = (input: unknown) => {
      asked.push(input);
      return `sun in ${(input as { city: string }).city}`;
    };
    const received = { description: 'Tells the weather.', parse: JSON.parse, function: weather };
    const runner = openai.chat.completions.runTools({
      model,
      messages: asks('What is the weather in Zürich and Rome?'),
      stream,
      ...(stream && { stream_options: { include_usage: true } }),
      tools: [{ type: 'function', function: { name: 'weather', parameters: PARAMETERS, ...received } }],
    } as Parameters<typeof openai.chat.completions.runTools>[0]);
    expect(await runner.finalContent()).toBe('sun in Zürich, sun in Rome');
    expect(asked).toEqual([{ city: 'Zürich' }, { city: 'Rome' }]);
    expect((await runner.totalUsage()).completion_tokens).toBeGreaterThan('sun in Zürich, sun in Rome'.length);
    expect(runner.messages.map((message) => message.role)).toEqual(['user', 'assistant', 'tool', 'tool', 'assistant']);
  });

  it('assembles a stream of several calls into the whole answer', async () => {
    for (const question of ['The weather in Zürich and Rome?', 'The weather in Rome, quietly.']) {
      const request = { model, messages: asks(question), tools: TOOLS };
      const whole = (await openai.chat.completions.create(request)).choices[0]!;
      const streamed = (await openai.chat.completions.stream(request).finalChatCompletion()).choices[0]!;
      expect([streamed.finish_reason, streamed.message.content || null, callsOf(streamed)]).toEqual([
        'tool_calls',
        whole.message.content,
        callsOf(whole),
      ]);
      expect(callsOf(whole).length).toBe(question.includes('Zürich') ? 2 : 1);
    }
  });

  it('gives reasoning next to content, whole and streamed, and counts its tokens', async () => {
    const request = { model, messages: asks('Hi.') };
    const whole = await openai.chat.completions.create(request);
    const message = whole.choices[0]!.message as OpenAI.ChatCompletionMessage & WithReasoning;
    expect([message.reasoning, message.content]).toEqual(['Someone greets me.', 'Hello to you.']);
    const received = { reasoning: '', content: '' };
    let usage: OpenAI.CompletionUsage | null | undefined;
    const streaming = { ...request, stream: true as const, stream_options: { include_usage: true } };
    for await (const chunk of await openai.chat.completions.create(streaming)) {
      const delta = (chunk.choices[0]?.delta ?? {}) as OpenAI.ChatCompletionChunk.Choice.Delta & WithReasoning;
      // The thought comes before any part of the answer.
      if (delta.reasoning) expect(received.content).toBe('');
      received.reasoning += delta.reasoning ?? '';
      received.content += delta.content ?? '';
      usage = chunk.usage ?? usage;
    }
    expect(received).toEqual({ reasoning: message.reasoning, content: message.content });
    expect(usage).toEqual({ ...whole.usage, prompt_tokens_details: expect.anything() });
    expect(usage!.completion_tokens_details!.reasoning_tokens).toBe('Someone greets me.'.length);
    const none = await openai.chat.completions.create({ ...request, reasoning_effort: 'none' });
    expect((none.choices[0]!.message as WithReasoning).reasoning).toBeNull();
  });

  it('parses an object after reasoning by its zod schema, whole and streamed', async () => {
    const report = z.object({ city: z.string(), degrees: z.number().int() });
    const request = { model, messages: asks('As json.'), response_format: zodResponseFormat(report, 'report') };
    const whole = await openai.chat.completions.parse(request);
    expect(whole.choices[0]!.message.parsed).toEqual({ city: 'Zürich', degrees: 21 });
    const streamed = await openai.chat.completions.stream(request).finalChatCompletion();
    expect(streamed.choices[0]!.message.parsed).toEqual({ city: 'Zürich', degrees: 21 });
  });

  it('ends the request when the caller aborts, streamed or not', async () => {
    const essay = { model, messages: asks('An essay.') };
    const before = await service.settled();
    const stream = await openai.chat.completions.create({ ...essay, stream: true });
    let numChunks = 0;
    for await (const _chunk of stream) if (++numChunks === 4) stream.controller.abort();
    const streamed = (await service.settled()) - before;
    const waiting = openai.chat.completions.create(essay, { signal: AbortSignal.timeout(100) });
    await expect(waiting).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    const whole = (await service.settled()) - before - streamed;
    console.log(`openai: ended after ${streamed} (streamed) and ${whole} (whole) tokens of 8,000`);
    expect([streamed < 7000, whole < 7000]).toEqual([true, true]);
  });

  it('gives log-probabilities of the text, of n choices', async () => {
    const request = { model, messages: asks('Hi.'), n: 3, logprobs: true, top_logprobs: 2, reasoning_effort: 'none' };
    const { choices, usage } = await openai.chat.completions.create(
      request as OpenAI.ChatCompletionCreateParamsNonStreaming,
    );
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2]);
    for (const { logprobs } of choices) {
      const entries = logprobs!.content!;
      // One token per byte, then the end of the turn.
      expect(entries.map(({ token }) => token).join('')).toBe('Hello to you.<|im_end|>');
      expect(entries.every(({ top_logprobs: top }) => top.length === 2 && top[0]!.logprob >= top[1]!.logprob)).toBe(
        true,
      );
    }
    expect(usage!.completion_tokens).toBe(3 * 'Hello to you.|'.length);
  });
});

/** Name and arguments; ids are new for every reply. */
function callsOf(choice: OpenAI.ChatCompletion.Choice): string[] {
  return (choice.message.tool_calls ?? []).map((call) =>
    call.type === 'function' ? `${call.function.name} ${call.function.arguments}` : call.type,
  );
}
