/**
 * Cuts a small model out of a GGUF file: its first layers and its first tokens, in half precision, with the
 * chat template and the rest unchanged. Its text makes no sense, at a tenth of the cost: for tests of the
 * code around the model.
 *
 *   node --conditions=@trainyard/source scripts/make-small-model.mjs <from> <to> <layers> <tokens>
 */
import { renameSync, rmSync } from 'node:fs';

import { GgufFile, GgufWriter } from '@trainyard/native';

const [from, to, ...sizes] = process.argv.slice(2);
const [numLayers = 0, wantedTokens = 0] = sizes.map(Number);
if (from === undefined || to === undefined || !(numLayers >= 1 && wantedTokens >= 1)) {
  throw new Error('Expected two paths and two numbers: <from> <to> <layers> <tokens>');
}
using source = GgufFile.open(from);
const architecture = String(source.metadata.get('general.architecture'));
const tokens = listOf('tokenizer.ggml.tokens');
const kinds = listOf('tokenizer.ggml.token_type');
const merges = listOf('tokenizer.ggml.merges');
const numUnmerged = tokens.length - merges.length;
// A vocabulary can be truncated if its tokens are in the order of their merges.
const canBeCut = merges.length > 0 && merges.every((merge, index) => tokens[numUnmerged + index] === joined(merge));
const numTokens = canBeCut ? Math.min(tokens.length, Math.max(wantedTokens, numUnmerged)) : tokens.length;

const metadata = {
  ...source.rawMetadata(),
  'general.file_type': { u32: 1 },
  [`${architecture}.block_count`]: { u32: numLayers },
  ...(canBeCut && {
    [`${architecture}.vocab_size`]: { u32: numTokens },
    'tokenizer.ggml.tokens': listed('string', tokens.slice(0, numTokens)),
    'tokenizer.ggml.token_type': listed('i32', kinds.slice(0, numTokens)),
    'tokenizer.ggml.merges': listed('string', merges.slice(0, numTokens - numUnmerged)),
  }),
};
const tensors = [...source.tensors.values()]
  .filter(({ name }) => Number(/^blk\.(\d+)\./.exec(name)?.[1] ?? 0) < numLayers)
  .map(({ name, dims }) => ({
    name,
    // One row per token.
    dims: /^(token_embd|output)\.weight$/.test(name)
      ? [.../** @type {[number]} */ (dims.slice(0, 1)), numTokens]
      : dims,
    type: /** @type {'f32' | 'f16'} */ (dims.length === 1 ? 'f32' : 'f16'),
  }));
const temporary = `${to}.${process.pid}`;
try {
  using writer = new GgufWriter(temporary, metadata, tensors);
  for (const { name, dims } of tensors) {
    const numValues = dims.reduce((product, dim) => product * dim, 1);
    writer.add(source.readF32(name).subarray(0, numValues));
  }
  writer.finish();
  renameSync(temporary, to);
} finally {
  rmSync(temporary, { force: true });
}

/** @param {string} key @returns {(string | number)[]} empty if the file has none */
function listOf(key) {
  const values = source.metadata.get(key);
  return Array.isArray(values) ? /** @type {(string | number)[]} */ (values) : [];
}

/** @template {'string' | 'i32'} Type @param {Type} type @param {(string | number)[]} values */
function listed(type, values) {
  return { array: { type, values } };
}

/** @param {string | number} merge two tokens with a blank between */
function joined(merge) {
  return String(merge).replace(' ', '');
}
