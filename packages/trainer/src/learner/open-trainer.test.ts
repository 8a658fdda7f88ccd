import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { GgufFile, writeGguf } from '@trainyard/native';
import { LINEAR_NAMES } from '@trainyard/transformer';
import { architectureMetadata, TINY_ARCHITECTURES, tinyTensors, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, expect, test, vi } from 'vitest';
import { packTrie } from '../testing/pack-trie.ts';
import { threadsStarted } from '../testing/threads-started.ts';
import { openTrainer } from './open-trainer.ts';

const directory = mkdtempSync(join(tmpdir(), 'trainer-'));
afterAll(() => rmSync(directory, { recursive: true }));

// Native code keeps some memory of each thread that called it and has ended.
test.each([false, true])('threads go from policy to policy, isDeterministic %s', async (isDeterministic) => {
  const modelPath = join(directory, 'llama.gguf');
  writeTinyGguf(modelPath, TINY_ARCHITECTURES.llama);
  const trainer = await openTrainer({ modelPath, numThreads: 2, isDeterministic });
  const row = packTrie([[{ tokenIds: [3, 9, 14, 20, 31, 7], numPrompt: 3 }]]);
  const counts: number[] = [];
  for (const rank of [2, 3, 4]) {
    const policy = await trainer.policy({ rank, alpha: 1, targets: LINEAR_NAMES, initSeed: 1 });
    const { logprobs } = await policy.forward(row);
    expect(logprobs.every((logprob) => logprob < 0)).toBe(true);
    counts.push(await threadsStarted());
  }
  // The count itself takes one thread each time.
  expect(counts.map((count) => count - counts[0]!)).toEqual([0, 1, 2]);
  trainer.close();
});

test('a deterministic trainer starts threads for some rows that are longer than all before, and not for each', async () => {
  const modelPath = join(directory, 'llama.gguf');
  writeTinyGguf(modelPath, TINY_ARCHITECTURES.llama);
  const trainer = await openTrainer({ modelPath, numThreads: 2, isDeterministic: true });
  const policy = await trainer.policy({ rank: 2, alpha: 1, targets: LINEAR_NAMES, initSeed: 1 });
  const before = await threadsStarted();
  for (let length = 9; length <= 32; length++) {
    const replies = Array.from({ length: length - 8 }, (_, i) => ({ tokenIds: [3, 9, 14, 20 + i], numPrompt: 3 }));
    const lone = { tokenIds: Array.from({ length }, (_, i) => 40 + i), numPrompt: 3 };
    await policy.forward(packTrie([replies, [lone]]));
  }
  // One for a lane, and one for each doubling of tokens and of sequences (three and four); the count itself takes
  // another.
  expect((await threadsStarted()) - before).toBeLessThanOrEqual(1 + 7 + 1);
  trainer.close();
});

test.each([false, true])(
  'streamed weights give the bits of resident ones, isDeterministic %s',
  async (isDeterministic) => {
    const modelPath = join(directory, 'llama.gguf');
    writeTinyGguf(modelPath, TINY_ARCHITECTURES.llama);
    const row = packTrie([[{ tokenIds: [3, 9, 14, 20, 31, 7, 40, 41], numPrompt: 3 }]]);
    const logprobs: Float32Array[] = [];
    for (const weights of ['resident', 'streamed', 'streamed'] as const) {
      const trainer = await openTrainer({ modelPath, numThreads: 2, isDeterministic, weights });
      // The second rank has other columns after the weights.
      for (const rank of [3, 2]) {
        const policy = await trainer.policy({ rank, alpha: 1, targets: LINEAR_NAMES, initSeed: 1 });
        for (const { value, half } of policy.lora.tensors) if (half === 'b') value.fill(0.1);
        const forward = await policy.forward(row);
        logprobs.push(forward.logprobs.slice());
      }
      trainer.close();
      expect(openFiles(modelPath)).toBe(0);
    }
    const [first, second, ...others] = logprobs;
    expect(second).not.toEqual(first);
    expect(others).toEqual([first, second, first, second]);
  },
);

const openFiles = (path: string): number =>
  readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === path;
    } catch {
      return false;
    }
  }).length;

test('a model without a vocabulary is refused before its weights are read', async () => {
  const modelPath = join(directory, 'without-vocabulary.gguf');
  writeGguf(modelPath, architectureMetadata(TINY_ARCHITECTURES.llama), tinyTensors(TINY_ARCHITECTURES.llama));
  const read = vi.spyOn(GgufFile.prototype, 'readF32');
  await expect(openTrainer({ modelPath, numThreads: 1 })).rejects.toThrow('without-vocabulary.gguf');
  expect(read).not.toHaveBeenCalled();
  read.mockRestore();
});
