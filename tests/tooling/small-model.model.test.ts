/**
 * The small model, cut out of the default one by `scripts/make-small-model.mjs`, is a model of the same kind.
 */
import { GgufFile, LlamaModel } from '@trainyard/native';
import { Tokenizer } from '@trainyard/tokenizer';
import { expect, it } from 'vitest';

import { testModel } from '../support/model.ts';

const CUT = new Set([
  'general.file_type',
  'llama.block_count',
  'llama.vocab_size',
  'tokenizer.ggml.tokens',
  'tokenizer.ggml.token_type',
  'tokenizer.ggml.merges',
]);

it('has the weights of the first layers and tokens, and everything else unchanged', () => {
  const { base, small } = testModel();
  using whole = GgufFile.open(base);
  using cut = GgufFile.open(small);
  const kept = (file: GgufFile) => [...file.metadata].filter(([key]) => !CUT.has(key));
  expect(kept(cut)).toEqual(kept(whole));
  expect(cut.metadata.get('llama.block_count')).toBe(2);
  const numTokens = Number(cut.metadata.get('llama.vocab_size'));
  for (const key of ['tokenizer.ggml.tokens', 'tokenizer.ggml.token_type'])
    expect(cut.metadata.get(key)).toEqual((whole.metadata.get(key) as unknown[]).slice(0, numTokens));
  const expected = [...whole.tensors.keys()].filter((name) => /^(?!blk\.)|^blk\.[01]\./.test(name));
  expect([...cut.tensors.keys()]).toEqual(expected);
  for (const name of expected) {
    const values = cut.readF32(name);
    const given = whole.readF32(name).subarray(0, values.length);
    const isRounded = cut.tensors.get(name)!.dims.length > 1;
    expect(values, name).toEqual(isRounded ? Float32Array.from(Float16Array.from(given)) : given);
  }
});

it('has a tokenizer that encodes every text, in as few of its tokens as the remaining merges allow', () => {
  const { base, small } = testModel();
  const [whole, cut] = [base, small].map((path) => {
    using model = LlamaModel.load(path, { vocabOnly: true });
    const tokenizer = Tokenizer.fromModel(model);
    for (const text of ['The tide turns at six.', 'Zürich, 東京 🚢', '{"name": "Ilse", "year": 1931}']) {
      const ids = tokenizer.encode(text);
      expect(tokenizer.decode(ids)).toBe(text);
      expect([...ids]).toEqual([...model.tokenize(text, { addSpecial: false, parseSpecial: false })]);
    }
    return [...tokenizer.encode(' the model is not in the')];
  });
  expect(cut).toEqual(whole);
});
