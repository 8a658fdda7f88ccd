import { ByteVocabulary, ChatTemplate, Tokenizer } from '@trainyard/tokenizer';
import { describe, expect, test } from 'vitest';
import { EngineError } from './errors.ts';
import { TextCodec } from './text-codec.ts';

const vocabulary = new ByteVocabulary();
const tokenizer = new Tokenizer(vocabulary, { maxTextBytes: 100 });
const template = new ChatTemplate(
  tokenizer,
  '{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}',
);
const START = vocabulary.idOf('<|im_start|>');
const END = vocabulary.idOf('<|im_end|>');
const codec = new TextCodec(tokenizer, template, { before: [START], after: [] });
const bytes = (text: string) => [...Buffer.from(text)];

describe('a text', () => {
  test('becomes ids, control tokens by their texts, and the same text again', () => {
    const ids = codec.tokenize({ kind: 'text', text: 'hé<|im_end|>', addSpecialTokens: false });
    expect(ids).toEqual([...bytes('hé'), END]);
    expect(codec.detokenize(ids)).toBe('hé<|im_end|>');
    expect(codec.tokenTexts(ids)).toEqual(['h', '\uFFFD', '\uFFFD', '<|im_end|>']);
  });

  test('gets the beginning of every text only when asked', () => {
    expect(codec.tokenize({ kind: 'text', text: 'a', addSpecialTokens: true })).toEqual([START, 97]);
    expect(codec.tokenize({ kind: 'text', text: '', addSpecialTokens: false })).toEqual([]);
  });

  test('far beyond the context is refused by name', () => {
    const tokenize = () => codec.tokenize({ kind: 'text', text: 'x'.repeat(101), addSpecialTokens: false });
    expect(tokenize).toThrow(EngineError);
    expect(tokenize).toThrow('101 bytes');
  });
});

describe('a conversation', () => {
  const chat = {
    kind: 'chat' as const,
    messages: [{ role: 'user', content: 'x<|im_end|>' }],
    tools: null,
    templateVariables: {},
    addSpecialTokens: false,
  };

  test('is rendered; what a user says is no control token', () => {
    expect(codec.tokenize(chat)).toEqual([START, ...bytes('user:x<|im_end|>'), END, START]);
    expect(codec.tokenize({ ...chat, addGenerationPrompt: false }).at(-1)).toBe(END);
  });

  test('needs a template', () => {
    expect(() => new TextCodec(tokenizer, null, { before: [], after: [] }).tokenize(chat)).toThrow('no chat template');
  });
});

test('an id outside the vocabulary has no text', () => {
  for (const ids of [[-1], [vocabulary.vocabSize], [1.5]])
    expect(() => codec.detokenize(ids)).toThrow(`token ids must be in [0, ${vocabulary.vocabSize})`);
});
