/** Test models that are functions, with one token per byte. */
import { Tokenizer } from '@trainyard/tokenizer';
import { ByteVocabulary } from '@trainyard/tokenizer/testing';
import type { LogitsScript } from './scripted-runner.ts';

const vocabulary = new ByteVocabulary();
export const byteTokenizer = new Tokenizer(vocabulary);
export const EOS = vocabulary.eosTokenId;
export const SECOND_END = vocabulary.idOf('<|endoftext|>');
export const VOCAB_SIZE = vocabulary.vocabSize;

/**
 * Logits that depend on every held token, its position and the adapter, so that wrong cells show in the reply.
 * End tokens are rare.
 */
export const mixedLogits: LogitsScript = (tokens, adapterPath, row) => {
  let hash = 2166136261;
  for (const char of adapterPath ?? '') hash = Math.imul(hash ^ char.charCodeAt(0), 16777619);
  for (const token of tokens) hash = Math.imul(hash ^ (token + 1), 16777619);
  for (let id = 0; id < row.length; id++) {
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    row[id] = ((hash >>> 8) / 2 ** 24) * 6;
  }
  row[EOS] = row[EOS]! - 0.5;
};

/** Replies `reply` after a prompt of `promptLength` tokens, then the end token, with certainty. */
export function replying(reply: string | readonly number[], promptLength: number): LogitsScript {
  const ids = typeof reply === 'string' ? [...Buffer.from(reply)] : reply;
  return (tokens, _adapterPath, row) => {
    row.fill(0);
    row[ids[tokens.length - promptLength] ?? EOS] = 50;
  };
}
