import { existsSync, renameSync, rmSync } from 'node:fs';

import { GgufFile, type GgufTensorShape, GgufWriter } from '@trainyard/native';
import type { Architecture } from '@trainyard/transformer';
import { architectureMetadata, tensorShapes, TINY_ARCHITECTURES } from '@trainyard/transformer/testing';

import { defaultModelPath } from '../../scripts/own-service.ts';

const qwen3 = (sizes: Pick<Architecture, 'hiddenSize' | 'feedForwardSize'>): Architecture => ({
  ...TINY_ARCHITECTURES.qwen3,
  ...sizes,
  vocabSize: 151_936,
  numLayers: 28,
  numHeads: 16,
  numKvHeads: 8,
  headSize: 128,
  rmsEpsilon: 1e-6,
  ropeBase: 1_000_000,
});

/** Shapes of public models, with tied embeddings. */
export const SHAPES = {
  '0.6B': qwen3({ hiddenSize: 1024, feedForwardSize: 3072 }),
  '1.7B': qwen3({ hiddenSize: 2048, feedForwardSize: 6144 }),
} as const satisfies Readonly<Record<string, Architecture>>;

export type ShapeName = keyof typeof SHAPES;

const BLOCK_BYTES = 18;
const BLOCK_VALUES = 32;
const PIECE_BLOCKS = 1 << 15;

/** Writes random q4_0 weights of a shape with the default model's vocabulary, filled up with unused tokens. */
export function writeShapedModel(path: string, name: ShapeName): void {
  if (existsSync(path)) return;
  const architecture = SHAPES[name];
  using source = GgufFile.open(defaultModelPath());
  const tokens = [...(source.metadata.get('tokenizer.ggml.tokens') as string[])];
  const kinds = [...(source.metadata.get('tokenizer.ggml.token_type') as number[])];
  while (tokens.length < architecture.vocabSize) {
    tokens.push(`[unused ${tokens.length}]`);
    kinds.push(5);
  }
  const vocabulary = Object.entries(source.rawMetadata()).filter(([key]) => key.startsWith('tokenizer.'));
  const metadata = {
    ...architectureMetadata(architecture),
    ...Object.fromEntries(vocabulary),
    'general.name': `Random ${name}`,
    [`${architecture.name}.context_length`]: { u32: 40_960 },
    'tokenizer.ggml.tokens': { array: { type: 'string', values: tokens } },
    'tokenizer.ggml.token_type': { array: { type: 'i32', values: kinds } },
  } as const;
  const shapes: GgufTensorShape[] = tensorShapes(architecture).map(({ name: tensor, dims }) => ({
    name: tensor,
    dims,
    type: dims.length === 1 ? 'f32' : 'q4_0',
  }));
  const temporary = `${path}.${process.pid}`;
  try {
    using writer = new GgufWriter(temporary, metadata, shapes);
    let state = 1;
    for (const { dims, type } of shapes) {
      const numValues = dims.reduce((product, dim) => product * dim, 1);
      if (type === 'f32') writer.add(new Float32Array(numValues).fill(1));
      else writer.addBytes(randomBlocks(numValues / BLOCK_VALUES, dims[0]!, () => (state = next(state))));
    }
    writer.finish();
    renameSync(temporary, path);
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** One random piece, repeated: the content of weights does not change times. */
function* randomBlocks(numBlocks: number, width: number, random: () => number): Generator<Uint8Array> {
  const piece = new Uint8Array(BLOCK_BYTES * Math.min(PIECE_BLOCKS, numBlocks));
  for (let i = 0; i < piece.length; i++) piece[i] = random() >>> 24;
  const scale = new Uint8Array(new Float16Array([0.3 / Math.sqrt(width)]).buffer);
  for (let at = 0; at < piece.length; at += BLOCK_BYTES) piece.set(scale, at);
  for (let done = 0; done < numBlocks; done += PIECE_BLOCKS)
    yield piece.subarray(0, BLOCK_BYTES * Math.min(PIECE_BLOCKS, numBlocks - done));
}

const next = (state: number): number => (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
