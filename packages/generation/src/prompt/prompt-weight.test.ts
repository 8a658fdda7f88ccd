import { expect, test } from 'vitest';
import { type ChatPrompt, DEFAULT_CHAT_PROMPT } from '../contract/generate-request.ts';
import { isLongPrompt, LONG_PROMPT_CHARACTERS, promptWeight } from './prompt-weight.ts';

const chat = (fields: Partial<ChatPrompt>): ChatPrompt => ({
  ...DEFAULT_CHAT_PROMPT,
  messages: [{ role: 'user', content: 'hi' }],
  ...fields,
});
const range = (length: number) => Array.from({ length }, (_, index) => index);
const long = 'x'.repeat(LONG_PROMPT_CHARACTERS + 1);

test('token ids weigh nothing, texts their characters', () => {
  expect(promptWeight({ kind: 'tokens', tokenIds: range(100_000) }, Infinity)).toBe(0);
  expect(promptWeight({ kind: 'text', text: 'abc', addSpecialTokens: false }, Infinity)).toBe(3);
});

test.each<[string, Partial<ChatPrompt>]>([
  ['a long message', { messages: [{ role: 'user', content: long }] }],
  ['a long part', { messages: [{ role: 'user', content: [{ type: 'text', text: long }] }] }],
  ['many messages', { messages: range(1000).map(() => ({ role: 'user', content: 'hi' })) }],
  ['a long description of a tool', { tools: [{ type: 'function', function: { name: 'f', description: long } }] }],
  ['many tools', { tools: range(1000).map((index) => ({ type: 'function', function: { name: `f${index}` } })) }],
  ['long names', { tools: [{ [long]: 1 }] }],
  ['tools as text', { toolsText: long }],
  ['long documents', { templateVariables: { documents: [{ text: long }] } }],
  ['many numbers', { templateVariables: { documents: range(10_000) } }],
  ['a map', { templateVariables: { documents: new Map([['a', long]]) } }],
  ['variables as text', { templateVariablesText: long }],
  ['a long template', { chatTemplate: long }],
])('%s makes a chat long', (_, fields) => {
  expect(isLongPrompt(chat(fields))).toBe(true);
});

test('an ordinary chat with tools is not long', () => {
  const tool = { type: 'function', function: { name: 'f', description: 'does it', parameters: { type: 'object' } } };
  const messages = range(40).map(() => ({ role: 'user', content: 'word '.repeat(50) }));
  expect(isLongPrompt(chat({ messages, tools: range(20).map(() => tool) }))).toBe(false);
});

test('counting ends at the threshold, however wide or deep the rest is', () => {
  let numRead = 0;
  const wide = new Proxy(range(1_000_000), {
    get: (target, key) => {
      numRead++;
      return Reflect.get(target, key) as unknown;
    },
  });
  let deep: unknown = 'x';
  for (let i = 0; i < 100_000; i++) deep = [deep];
  expect(isLongPrompt(chat({ templateVariables: { wide } }))).toBe(true);
  expect(numRead).toBeLessThan(LONG_PROMPT_CHARACTERS);
  expect(isLongPrompt(chat({ templateVariables: { deep } }))).toBe(true);
});
