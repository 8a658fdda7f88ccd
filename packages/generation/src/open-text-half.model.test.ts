import { LlamaModel } from '@trainyard/native';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { testModel } from '../../../tests/support/model.ts';
import { DEFAULT_CHAT_PROMPT } from './contract/generate-request.ts';
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

test('a long text has the tokens of its parts, and this thread goes on meanwhile', async () => {
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

test('long texts wait for each other, those whose caller left are passed over, and what is refused is refused as ever', async () => {
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

test('a text half that is closed answers those who wait', async () => {
  const { text } = await openTextOfFile(testModel().base, { runsRequestTemplates: false });
  const waiting = text.codec.tokenize({ kind: 'text', text: 'a b '.repeat(500_000), addSpecialTokens: false }, NEVER);
  text.close();
  await expect(waiting).rejects.toThrow('the tokenizer was closed');
});
