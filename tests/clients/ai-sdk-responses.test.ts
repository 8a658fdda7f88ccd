/**
 * The unmodified `ai` package with `@ai-sdk/openai`, which uses the Responses API and by default refers to
 * items that the service keeps.
 */
import { createOpenAI, type OpenAILanguageModelResponsesOptions } from '@ai-sdk/openai';
import { generateText, isStepCount, jsonSchema, type ModelMessage, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { commentedStreams } from '../support/commented-streams.ts';
import { scriptedService, type ScriptedServiceProcess } from '../support/scripted-service.ts';

const SPOKEN = 'What is the weather in Zürich and in Rome?';
const AGAIN = 'And the weather in Rome, please?';
/** Prompt items of the answer to {@link SPOKEN}, as listed by the service. */
const FIRST_TURN = [
  'message',
  'reasoning',
  'message',
  'function_call',
  'function_call',
  'function_call_output',
  'function_call_output',
];
/** Those of the answer to {@link AGAIN} after it. */
const BOTH_TURNS = [
  ...FIRST_TURN,
  'reasoning',
  'message',
  'message',
  'reasoning',
  'message',
  'function_call',
  'function_call_output',
];

interface SentRequest {
  readonly input: readonly { type?: string; role?: string }[];
  readonly previous_response_id?: string;
}

const tools = {
  weather: tool({
    description: 'Tells the weather of a city.',
    inputSchema: jsonSchema<{ city: string }>({ type: 'object', properties: { city: { type: 'string' } } }),
    execute: async ({ city }) => `sun in ${city}`,
  }),
};

describe('the unmodified ai package over the Responses API', () => {
  let service: ScriptedServiceProcess;
  let commented: Awaited<ReturnType<typeof commentedStreams>>;
  let sent: SentRequest[];
  beforeAll(async () => {
    service = await scriptedService();
    commented = await commentedStreams(service.url);
  });
  afterAll(async () => {
    commented.close();
    await service.close();
  });
  beforeEach(() => {
    sent = [];
  });

  function request(messages: ModelMessage[], options: OpenAILanguageModelResponsesOptions = {}) {
    const provider = createOpenAI({
      baseURL: commented.url,
      apiKey: service.apiKey,
      fetch: async (url, init) => {
        sent.push(JSON.parse(init?.body as string) as SentRequest);
        return await fetch(url, init);
      },
    });
    return {
      model: provider.responses(service.model),
      messages,
      tools,
      stopWhen: isStepCount(5),
      providerOptions: { openai: options },
    };
  }

  const user = (content: string): ModelMessage => ({ role: 'user', content });
  const kinds = (at: number) => sent[at]!.input.map(({ type, role }) => type ?? role);

  /** Kinds of the items in an answer's prompt. */
  async function promptOf(result: { response: { id: string } }): Promise<string[]> {
    const { responses } = new OpenAI({ baseURL: service.url, apiKey: service.apiKey });
    const items = await Array.fromAsync(responses.inputItems.list(result.response.id, { order: 'asc', limit: 100 }));
    return items.map(({ type }) => type);
  }

  it('refers to the items of earlier steps and turns, and the model sees them', async () => {
    const first = await generateText(request([user(SPOKEN)]));
    expect([first.text, first.steps.map(({ finishReason }) => finishReason)]).toEqual([
      'sun in Zürich, sun in Rome',
      ['tool-calls', 'stop'],
    ]);
    const calls = ['function_call', 'function_call', 'function_call_output', 'function_call_output'];
    expect([kinds(0), kinds(1)]).toEqual([['user'], ['user', 'item_reference', 'item_reference', ...calls]]);
    expect(await promptOf(first.finalStep)).toEqual(FIRST_TURN);

    const second = await generateText(request([user(SPOKEN), ...first.responseMessages, user(AGAIN)]));
    expect(second.text).toBe('sun in Rome');
    expect(kinds(2)).toEqual([...kinds(1), 'item_reference', 'item_reference', 'user']);
    expect(await promptOf(second.finalStep)).toEqual(BOTH_TURNS);
    expect(second.usage.inputTokenDetails.cacheReadTokens).toBeGreaterThan(0);

    // The same turn with the previous answer's id, and with all items in the request, has the same prompt.
    const previousResponseId = first.finalStep.response.id;
    const chained = await generateText(request([user(AGAIN)], { previousResponseId }));
    const whole = await generateText(request([user(SPOKEN), ...first.responseMessages, user(AGAIN)], { store: false }));
    for (const other of [chained, whole]) {
      expect(other.text).toBe('sun in Rome');
      expect(other.steps.map(({ usage }) => usage.inputTokens)).toEqual(
        second.steps.map(({ usage }) => usage.inputTokens),
      );
    }
    expect(sent.filter((body) => body.previous_response_id === previousResponseId)).toHaveLength(2);
    // The package itself drops the reasoning of a step that follows another one there.
    expect(await promptOf(chained.finalStep)).toEqual(BOTH_TURNS.toSpliced(10, 1));
  });

  it('streams both turns, with reasoning on request', async () => {
    const options = { forceReasoning: true, reasoningSummary: 'auto' };
    const parts = async (messages: ModelMessage[]) => {
      const result = streamText(request(messages, options));
      const joined: Record<string, string> = {};
      for await (const part of result.fullStream) {
        if (part.type === 'error') throw part.error;
        if (part.type === 'reasoning-delta' || part.type === 'text-delta')
          joined[part.type] = (joined[part.type] ?? '') + part.text;
        if (part.type === 'tool-call') joined[part.type] = (joined[part.type] ?? '') + JSON.stringify(part.input);
      }
      return { joined, messages: (await result.responseMessages) as ModelMessage[] };
    };
    const first = await parts([user(SPOKEN)]);
    expect(first.joined).toEqual({
      'reasoning-delta': 'I must look.I was told.',
      'text-delta': 'I look.\nsun in Zürich, sun in Rome',
      'tool-call': '{"city":"Zürich"}{"city":"Rome"}',
    });
    const second = await parts([user(SPOKEN), ...first.messages, user(AGAIN)]);
    expect(second.joined).toEqual({
      'reasoning-delta': 'I must look.I was told.',
      'text-delta': 'I look.\nsun in Rome',
      'tool-call': '{"city":"Rome"}',
    });
    expect(kinds(2)).toContain('item_reference');
  });
});
