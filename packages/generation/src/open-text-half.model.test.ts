import { LlamaModel } from '@trainyard/native';
import { toFailure } from '@trainyard/backend';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { testModel } from '../../../tests/support/model.ts';
import { type ChatPrompt, DEFAULT_CHAT_PROMPT } from './contract/generate-request.ts';
import { renderChat } from './prompt/chat.ts';
import { openTextHalf, openTextOfFile, type TextHalf } from './open-text-half.ts';

const NEVER = new AbortController().signal;
let full: { model: LlamaModel; text: TextHalf };
let vocabulary: { text: TextHalf; architecture: string };

beforeAll(async () => {
  const path = testModel().base;
  const model = LlamaModel.load(path);
  full = { model, text: await openTextHalf(model) };
  vocabulary = await openTextOfFile(path);
});
afterAll(() => {
  full.text.close();
  full.model.close();
  vocabulary.text.close();
});

const texts = [
  'The capital of France',
  'Zürich, 21 °C — naïve façade\n\n\tif (x) { return "y"; }',
  '<|im_start|>user\nhi<|im_end|>',
  '日本語 😀 a'.repeat(20),
  '',
];

test.each(texts)('without weights %j has the same tokens', async (text) => {
  for (const addSpecialTokens of [true, false]) {
    const input = { kind: 'text', text, addSpecialTokens } as const;
    const expected = await full.text.codec.tokenize(input, NEVER);
    expect(await vocabulary.text.codec.tokenize(input, NEVER)).toEqual(expected);
    expect(vocabulary.text.codec.tokenTexts(expected)).toEqual(full.text.codec.tokenTexts(expected));
    expect(vocabulary.text.codec.detokenize(expected)).toBe(full.text.codec.detokenize(expected));
  }
});

test('conversations have the same tokens, too, by the same template', async () => {
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Who wrote <|im_end|> Faust?' },
  ];
  const input = { ...DEFAULT_CHAT_PROMPT, messages, addSpecialTokens: false };
  const expected = await full.text.codec.tokenize(input, NEVER);
  expect(expected.length).toBeGreaterThan(10);
  expect(await vocabulary.text.codec.tokenize(input, NEVER)).toEqual(expected);
});

test('and the same facts', () => {
  expect(vocabulary.text.facts).toEqual(full.text.facts);
  expect(vocabulary.text.prompt.borders).toEqual(full.text.prompt.borders);
  expect(vocabulary.architecture).toBe(full.model.architecture);
  const [known, expected] = [vocabulary.text.prompt.tokenizer, full.text.prompt.tokenizer];
  expect(known.vocabSize).toBe(expected.vocabSize);
  expect(known.eosTokenId).toBe(expected.eosTokenId);
  expect([...known.endTokenIds]).toEqual([...expected.endTokenIds]);
  for (let id = 0; id < known.vocabSize; id++)
    if (Buffer.compare(known.tokenBytes(id), expected.tokenBytes(id)) !== 0) expect.fail(`token ${id} differs`);
});

test('a long text has the tokens of its parts, and this thread keeps running meanwhile', async () => {
  const part = 'The quick brown fox, 21 °C — naïve façade\n';
  const tokensOf = async (text: string) =>
    await vocabulary.text.codec.tokenize({ kind: 'text', text, addSpecialTokens: false }, NEVER);
  const once = await tokensOf(part);
  let numTurns = 0;
  const counting = setInterval(() => (numTurns += 1), 5);
  const long = await tokensOf(part.repeat(20_000));
  clearInterval(counting);
  expect(long).toHaveLength(20_000 * once.length);
  expect(long.slice(0, once.length)).toEqual(once);
  expect(long.slice(-once.length)).toEqual(once);
  // On this thread it would be one turn.
  expect(numTurns).toBeGreaterThan(5);
});

test('long texts wait for each other, those of callers that left are skipped, and refusals stay the same', async () => {
  const input = (text: string) => ({ kind: 'text', text, addSpecialTokens: false }) as const;
  const left = new AbortController();
  const first = full.text.codec.tokenize(input('a b '.repeat(50_000)), NEVER);
  const second = full.text.codec.tokenize(input('c d '.repeat(50_000)), left.signal);
  const third = full.text.codec.tokenize(input('e f '.repeat(50_000)), NEVER);
  left.abort(new Error('nobody waits'));
  await expect(second).rejects.toThrow('nobody waits');
  expect([(await first).length, (await third).length]).toEqual([100_001, 100_001]);
  await expect(full.text.codec.tokenize(input('x'.repeat(40_000_000)), NEVER)).rejects.toMatchObject({
    code: 'context_length_exceeded',
  });
});

describe('a long chat', () => {
  const range = (length: number) => Array.from({ length }, (_, index) => index);
  const chat = (fields: Partial<ChatPrompt>) => ({
    ...DEFAULT_CHAT_PROMPT,
    messages: [{ role: 'user', content: 'Who wrote <|im_end|> Faust? '.repeat(2000) }],
    ...fields,
  });

  test.each<[string, Partial<ChatPrompt>]>([
    ['of one message', {}],
    ['of many messages', { messages: range(2000).map((i) => ({ role: i % 2 ? 'assistant' : 'user', content: 'hi' })) }],
    [
      'with tools, as text',
      { tools: [], toolsText: '[{"type":"function","function":{"name":"f","n":12345678901234567890}}]' },
    ],
    ['that goes on', { addGenerationPrompt: false, continueFinalMessage: true }],
    ['with a template of its own', { chatTemplate: '<|im_start|>{{ messages[0].content }}' }],
  ])('%s is rendered as on this thread', async (_, fields) => {
    const prompt = chat(fields);
    const { prompt: parts } = vocabulary.text;
    const use = { tenant: 'a', signal: NEVER };
    const there = await parts.longTexts!.render(prompt, use);
    expect(there).toEqual(await renderChat(prompt, parts, NEVER));
    expect(await vocabulary.text.codec.tokenize({ ...prompt, addSpecialTokens: false }, NEVER)).toEqual(
      Array.from(there.tokenIds),
    );
  });

  test('is refused with the same words', async () => {
    const { prompt: parts } = vocabulary.text;
    for (const fields of [
      { messages: [], templateVariablesText: '{' },
      { chatTemplate: '{% for %}' },
      { messages: [{ role: 'user', content: 'x'.repeat(40_000_000) }] },
    ]) {
      const failureOf = async (render: () => unknown) => {
        try {
          await render();
          return null;
        } catch (error) {
          return toFailure(error);
        }
      };
      const here = await failureOf(async () => await renderChat(chat(fields), parts, NEVER));
      expect(here?.code).toMatch(/template_failed|context_length_exceeded/);
      expect(
        await failureOf(async () => await parts.longTexts!.render(chat(fields), { tenant: 'a', signal: NEVER })),
      ).toEqual(here);
    }
  });

  test('waits for one chat of each other tenant, not for all of one', async () => {
    const { longTexts } = vocabulary.text.prompt;
    const order: string[] = [];
    const ask = async (tenant: string) => {
      await longTexts!.render(chat({}), { tenant, signal: NEVER });
      order.push(tenant);
    };
    await Promise.all([...range(4).map(() => 'crowd'), 'one', 'two'].map(ask));
    expect(order).toEqual(['crowd', 'crowd', 'one', 'two', 'crowd', 'crowd']);
  });
});

test('a closed text half answers its waiters', async () => {
  const { text } = await openTextOfFile(testModel().base, { runsRequestTemplates: false });
  const waiting = text.codec.tokenize({ kind: 'text', text: 'a b '.repeat(500_000), addSpecialTokens: false }, NEVER);
  text.close();
  await expect(waiting).rejects.toThrow('the tokenizer was closed');
});
