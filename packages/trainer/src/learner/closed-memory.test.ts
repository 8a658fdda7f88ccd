import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { DecoderBatch, PagedDecoder } from '@trainyard/decoder';
import { returnFreeMemory } from '@trainyard/native';
import { type Architecture, LINEAR_NAMES } from '@trainyard/transformer';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, expect, test } from 'vitest';
import { packTrie } from '../testing/pack-trie.ts';
import { openTrainer } from './open-trainer.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const directory = mkdtempSync(join(tmpdir(), 'closed-memory-'));
afterAll(() => rmSync(directory, { recursive: true }));

/** One block of 3.1 M weights, so 12.5 MB in single precision, and two buffers of as much. */
const ARCHITECTURE: Architecture = {
  ...TINY_ARCHITECTURES.qwen3,
  hiddenSize: 512,
  numHeads: 16,
  numKvHeads: 8,
  headSize: 32,
  feedForwardSize: 1536,
  numLayers: 2,
};
const modelPath = join(directory, 'model.gguf');
writeTinyGguf(modelPath, ARCHITECTURE);
const NUM_OPENS = 5;
/** One model in memory, or two buffers of a block. */
const MODEL_BYTES = 25e6;

async function train(weights: 'resident' | 'streamed'): Promise<void> {
  const trainer = await openTrainer({ modelPath, numThreads: 1, weights });
  const policy = await trainer.policy({ rank: 2, alpha: 1, targets: LINEAR_NAMES, initSeed: 1 });
  await policy.forward(packTrie([[{ tokenIds: [3, 9, 14, 20, 31, 7], numPrompt: 3 }]]));
  trainer.close();
}

function sample(weights: 'resident' | 'streamed'): void {
  const sizes = { capacityTokens: 64, maxSequences: 1, batchTokens: 16, numThreads: 1 };
  const decoder = PagedDecoder.open(modelPath, { ...sizes, weights });
  const batch = new DecoderBatch<never>(16);
  for (let position = 0; position < 8; position++)
    batch.add({ token: position, position, sequence: 0, wantsLogits: position === 7 }, null);
  decoder.run(batch);
  decoder.close();
}

async function settledBytes(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collect();
    await delay(50);
  }
  returnFreeMemory();
  return process.memoryUsage.rss();
}

test.runIf(process.platform === 'linux').each(['resident', 'streamed'] as const)(
  'models that are opened and closed in turn leave no weights behind: %s',
  async (weights) => {
    const after: number[] = [];
    for (let i = 0; i < NUM_OPENS; i++) {
      await train(weights);
      sample(weights);
      after.push(await settledBytes());
    }
    const grown = after.map((bytes) => ((bytes - after[0]!) / 1e6).toFixed(1));
    console.log(`${weights}: MB above the memory after the first close: ${grown.join(', ')}`);
    // Each of the later opens would leave as much as that.
    expect(after.at(-1)! - after[0]!).toBeLessThan((NUM_OPENS - 1) * MODEL_BYTES * 0.4);
  },
);
