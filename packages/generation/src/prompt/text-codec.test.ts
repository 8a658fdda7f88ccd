import { ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { ByteVocabulary } from '@trainyard/tokenizer/testing';
import { DEFAULT_CHAT_PROMPT } from '../contract/generate-request.ts';
import { describe, expect, test } from 'vitest';
import { EngineError } from '@trainyard/backend';
import { requestTemplates } from './request-templates.ts';
import { TextCodec, type TokenizeInput } from './text-codec.ts';

const vocabulary = new ByteVocabulary();
const tokenizer = new Tokenizer(vocabulary, { maxTextBytes: 100 });
const template = new ChatTemplate(
  tokenizer,
  '{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}',
);
const START = vocabulary.idOf('<|im_start|>');
const END = vocabulary.idOf('<|im_end|>');
const codec = new TextCodec({ tokenizer, template, borders: { before: [START], after: [] } });
const tokenize = (input: TokenizeInput, by = codec) => by.tokenize(input, AbortSignal.timeout(10_000));
const bytes = (text: string) => [...Buffer.from(text)];

describe('a text', () => {
  test('becomes ids, control tokens by their texts, and the same text again', async () => {
    const ids = await tokenize({ kind: 'text', text: 'hé<|im_end|>', addSpecialTokens: false });
    expect(ids).toEqual([...bytes('hé'), END]);
    expect(codec.detokenize(ids)).toBe('hé<|im_end|>');
    expect(codec.tokenTexts(ids)).toEqual(['h', '\uFFFD', '\uFFFD', '<|im_end|>']);
  });

  test('gets the beginning of every text only when asked', async () => {
    expect(await tokenize({ kind: 'text', text: 'a', addSpecialTokens: true })).toEqual([START, 97]);
    expect(await tokenize({ kind: 'text', text: '', addSpecialTokens: false })).toEqual([]);
  });

  test('far beyond the context is refused by name', async () => {
    const refused = tokenize({ kind: 'text', text: 'x'.repeat(101), addSpecialTokens: false });
    await expect(refused).rejects.toThrow(EngineError);
    await expect(refused).rejects.toThrow('101 bytes');
  });
});

describe('a conversation', () => {
  const chat = {
    ...DEFAULT_CHAT_PROMPT,
    messages: [{ role: 'user', content: 'x<|im_end|>' }],
  };

  test('is rendered; text of a user gives no control token', async () => {
    expect(await tokenize(chat)).toEqual([START, ...bytes('user:x<|im_end|>'), END, START]);
    expect((await tokenize({ ...chat, addGenerationPrompt: false })).at(-1)).toBe(END);
  });

  test('may bring its template', async () => {
    const templateSandbox = requestTemplates(tokenizer, { allowsControlTokens: false });
    const open = new TextCodec({ tokenizer, template: null, templateSandbox, borders: { before: [START], after: [] } });
    try {
      const own = { ...chat, chatTemplate: '<|im_end|>{{ messages[0].content }}', addSpecialTokens: true };
      expect(await tokenize(own, open)).toEqual([START, END, ...bytes('x<|im_end|>')]);
      await expect(tokenize({ ...own, chatTemplate: '{% for %}' }, open)).rejects.toMatchObject({
        code: 'engine.template_failed',
        param: 'chatTemplate',
      });
    } finally {
      templateSandbox.close();
    }
  });

  test('gives control tokens to a template of its own only if its sender is trusted', async () => {
    for (const allowsControlTokens of [false, true]) {
      const templateSandbox = requestTemplates(tokenizer, { allowsControlTokens });
      const open = new TextCodec({ tokenizer, template: null, templateSandbox, borders: { before: [], after: [] } });
      const ids = await tokenize({ ...chat, chatTemplate: '{{ messages[0].content }}' }, open);
      templateSandbox.close();
      expect(ids).toEqual(allowsControlTokens ? [...bytes('x'), END] : bytes('x<|im_end|>'));
    }
  });

  test('needs a template', async () => {
    const bare = new TextCodec({ tokenizer, template: null, borders: { before: [], after: [] } });
    await expect(tokenize(chat, bare)).rejects.toThrow('no chat template');
    await expect(tokenize({ ...chat, chatTemplate: 'x' }, bare)).rejects.toThrow(
      'this service runs no templates of requests',
    );
  });
});

test('an id outside the vocabulary has no text', () => {
  for (const ids of [[-1], [vocabulary.vocabSize], [1.5]])
    expect(() => codec.detokenize(ids)).toThrow(`token ids must be in [0, ${vocabulary.vocabSize})`);
});
