/**
 * The unmodified `ai` package with `@ai-sdk/openai-compatible`, with a model that calls tools and reasons,
 * and with the real one.
 */
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, generateText, isStepCount, jsonSchema, Output, RetryError, streamText, tool } from 'ai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { commentedStreams } from '../support/commented-streams.ts';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

const CITY_SCHEMA = jsonSchema<{ city: string }>({
  type: 'object',
  properties: { city: { type: 'string', enum: ['Zürich', 'Rome'] } },
  required: ['city'],
  additionalProperties: false,
});
const REPORT_SCHEMA = jsonSchema<{ city: string; degrees: number }>({
  type: 'object',
  properties: { city: { type: 'string', maxLength: 12 }, degrees: { type: 'integer', minimum: -20, maximum: 45 } },
  required: ['city', 'degrees'],
  additionalProperties: false,
});
const SPOKEN = 'What is the weather in Zürich and in Rome?';

/** A tool that records the requested cities. */
function weatherTool() {
  const asked: string[] = [];
  const weather = tool({
    description: 'Tells the weather of a city.',
    inputSchema: CITY_SCHEMA,
    execute: async ({ city }) => {
      asked.push(city);
      return `sun in ${city}`;
    },
  });
  return { asked, tools: { weather } };
}

function provider(service: { url: string; apiKey: string }) {
  return createOpenAICompatible({
    name: 'trainyard',
    baseURL: service.url,
    apiKey: service.apiKey,
    includeUsage: true,
    supportsStructuredOutputs: true,
  });
}

describe('the unmodified ai package, on a model that calls tools and reasons', () => {
  let service: ScriptedServiceProcess;
  /** Comments before all events: clients skip them. */
  let commented: Awaited<ReturnType<typeof commentedStreams>>;
  let model: ReturnType<ReturnType<typeof provider>['chatModel']>;
  beforeAll(async () => {
    service = await scriptedService();
    commented = await commentedStreams(service.url);
    model = provider({ url: commented.url, apiKey: service.apiKey }).chatModel(service.model);
  });
  afterAll(async () => {
    commented.close();
    await service.close();
  });

  it('runs tools until the model answers', async () => {
    const { asked, tools } = weatherTool();
    const result = await generateText({ model, prompt: SPOKEN, tools, stopWhen: isStepCount(5) });
    expect(asked).toEqual(['Zürich', 'Rome']);
    expect(result.steps.map((step) => step.finishReason)).toEqual(['tool-calls', 'stop']);
    expect(result.steps.map((step) => step.reasoningText)).toEqual(['I must look.', 'I was told.']);
    expect(result.text).toBe('sun in Zürich, sun in Rome');
    expect(result.totalUsage.outputTokens).toBeGreaterThan(0);
  });

  it('runs tools in a stream, where reasoning comes before text and text before calls', async () => {
    const { asked, tools } = weatherTool();
    const result = streamText({ model, prompt: SPOKEN, tools, stopWhen: isStepCount(5) });
    const kinds: string[] = [];
    const joined: Record<string, string> = {};
    for await (const part of result.fullStream) {
      if (part.type === 'error') throw part.error;
      if (part.type === 'reasoning-delta' || part.type === 'text-delta')
        joined[part.type] = (joined[part.type] ?? '') + part.text;
      if (kinds.at(-1) !== part.type) kinds.push(part.type);
    }
    expect(asked.toSorted()).toEqual(['Rome', 'Zürich']);
    expect(joined).toEqual({
      'reasoning-delta': 'I must look.I was told.',
      'text-delta': expect.stringMatching(/^I look\.\s*sun in Zürich, sun in Rome$/),
    });
    const firstOf = (kind: string) => kinds.indexOf(kind);
    expect(firstOf('reasoning-delta')).toBeLessThan(firstOf('text-delta'));
    expect(firstOf('text-delta')).toBeLessThan(firstOf('tool-call'));
    expect((await result.steps).map((step) => step.finishReason)).toEqual(['tool-calls', 'stop']);
    const usage = await result.totalUsage;
    expect(usage.outputTokenDetails.reasoningTokens).toBe('I must look.'.length + 'I was told.'.length);
    expect(usage.totalTokens).toBe(usage.inputTokens! + usage.outputTokens!);
  });

  it('calls without content, and sends back a message whose content is null', async () => {
    const { asked, tools } = weatherTool();
    const prompt = 'The weather in Rome, quietly.';
    const result = await generateText({ model, prompt, tools, stopWhen: isStepCount(5) });
    expect([asked, result.text, result.steps[0]!.text]).toEqual([['Rome'], 'sun in Rome', '']);
  });

  it('reads an object, whole and growing in a stream, with reasoning', async () => {
    const output = Output.object({ schema: REPORT_SCHEMA, name: 'report' });
    const whole = await generateText({ model, prompt: 'As json, please.', output });
    expect([whole.output, whole.reasoningText]).toEqual([{ city: 'Zürich', degrees: 21 }, 'An object.']);
    const streamed = streamText({ model, prompt: 'As json, please.', output });
    const partial: unknown[] = [];
    for await (const object of streamed.partialOutputStream) partial.push(object);
    expect(partial.length).toBeGreaterThan(3);
    expect([partial.at(-1), await streamed.output]).toEqual([whole.output, whole.output]);
  });

  it('switches reasoning off', async () => {
    const result = await generateText({ model, prompt: 'Hi.', reasoning: 'none' });
    expect([result.text, result.reasoningText]).toEqual(['Hello to you.', undefined]);
    expect(result.usage.outputTokenDetails.reasoningTokens).toBe(0);
  });

  it('ends the request when the caller aborts', async () => {
    const before = await service.settled();
    const controller = new AbortController();
    const { textStream } = streamText({ model, prompt: 'An essay.', abortSignal: controller.signal });
    let text = '';
    for await (const piece of textStream) {
      text += piece;
      if (text.length > 20) controller.abort();
    }
    const generated = (await service.settled()) - before;
    console.log(`ai: aborted after ${text.length} characters, the engine ended after ${generated} tokens of 8,000`);
    expect(generated).toBeLessThan(7000);
  });

  it('gets status, code and message of refusals, and does not retry them', async () => {
    const failures = await Promise.all([
      generateText({ model: provider(service).chatModel('nobody'), prompt: 'x' }).catch((error: unknown) => error),
      generateText({ model, prompt: 'x', topP: 2 }).catch((error: unknown) => error),
      generateText({ model: provider({ ...service, apiKey: 'wrong' }).chatModel('tiny/base'), prompt: 'x' }).catch(
        (error: unknown) => error,
      ),
      generateText({ model, messages: [{ role: 'user', content: 'x'.repeat(9000) }] }).catch((error: unknown) => error),
    ]);
    const received = failures.map((error) => {
      expect(RetryError.isInstance(error)).toBe(false);
      if (!APICallError.isInstance(error)) throw error;
      const { error: body } = error.data as { error: { code: string; param: string | null } };
      expect(error.isRetryable).toBe(false);
      expect(error.message.length).toBeGreaterThan(10);
      return [error.statusCode, body.code, body.param];
    });
    expect(received).toEqual([
      [404, 'request.unknown_model', 'model'],
      [400, 'request.invalid', 'top_p'],
      [401, 'request.unauthenticated', null],
      [400, 'context_length_exceeded', 'input_tokens'],
    ]);
  });
});

describe('the unmodified ai package, on the real model', () => {
  let service: OwnService;
  let model: ReturnType<ReturnType<typeof provider>['chatModel']>;
  beforeAll(async () => {
    service = await ownService();
    model = provider(service).chatModel('HuggingFaceTB/SmolLM2-135M-Instruct');
  });
  afterAll(async () => {
    await service.close();
  });

  it('streams the same text as it gets whole, with usage', async () => {
    const request = { model, prompt: 'What is the capital of France?', temperature: 0, maxOutputTokens: 16 };
    const whole = await generateText(request);
    const streamed = streamText(request);
    const pieces = await Array.fromAsync(streamed.textStream);
    expect(whole.text).toContain('Paris');
    expect([pieces.join(''), await streamed.finishReason]).toEqual([whole.text, whole.finishReason]);
    expect((await streamed.usage).outputTokens).toBe(whole.usage.outputTokens);
    expect(pieces.length).toBeGreaterThan(2);
  });

  it('gets a call of the forced tool, with arguments of its schema', async () => {
    const { asked, tools } = weatherTool();
    for (const toolChoice of ['required', { type: 'tool', toolName: 'weather' }] as const) {
      const result = await generateText({ model, prompt: SPOKEN, tools, toolChoice, seed: 4, maxOutputTokens: 100 });
      expect(result.toolCalls.length).toBeGreaterThan(0);
      for (const call of result.toolCalls) {
        expect(call).toMatchObject({ toolName: 'weather' });
        expect(call).not.toHaveProperty('invalid', true);
      }
    }
    for (const city of asked) expect(['Zürich', 'Rome']).toContain(city);
  });

  it('gets objects, lists and choices of their schemas at temperature 1', async () => {
    const request = { model, temperature: 1, maxOutputTokens: 300 };
    const object = Output.object({ schema: REPORT_SCHEMA });
    const report = await generateText({ ...request, seed: 1, prompt: 'The weather, as JSON.', output: object });
    expect(report.output.city.length).toBeLessThanOrEqual(12);
    expect(report.output.degrees).toSatisfy((value: number) => Number.isInteger(value) && value >= -20 && value <= 45);
    const choice = Output.choice({ options: ['sunny', 'rainy', 'snowy'] });
    const sky = await generateText({ ...request, seed: 2, prompt: 'How is the sky?', output: choice });
    expect(['sunny', 'rainy', 'snowy']).toContain(sky.output);
    const array = Output.array({ element: CITY_SCHEMA });
    const cities = await generateText({ ...request, seed: 3, prompt: 'Two cities, please.', output: array });
    for (const { city } of cities.output) expect(['Zürich', 'Rome']).toContain(city);
  });
});
