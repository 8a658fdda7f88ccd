/**
 * Log-probabilities of rows against a decoder's, used as in the engine: by sequence, in batches of any kind,
 * with the adapter's file.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DecoderBatch,
  DecoderGraphs,
  logSumExp,
  PagedDecoder,
  RowScan,
  scanMaxima,
  scanSums,
} from '@trainyard/decoder';
import type { DecoderAdapter } from '@trainyard/decoder';
import { GgufFile } from '@trainyard/native';
import { type Architecture, LINEAR_NAMES, linearNames, readArchitecture, readWeights } from '@trainyard/transformer';
import { randomSource, TINY_ARCHITECTURES, tinyTensors, writeTinyGguf } from '@trainyard/transformer/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { writeCheckpointFiles } from '../checkpoint/checkpoint.ts';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import type { ForwardOptions } from '../model/policy-model.ts';
import { freshOptimizerState } from '../optimizer/adamw.ts';
import { packTrie, type TinySequence } from '../testing/pack-trie.ts';
import { policyModelSuite } from '../testing/policy-model.suite.ts';
import { randomizeAdapter } from '../testing/randomize-adapter.ts';
import { DeterministicPolicy } from './deterministic-policy.ts';
import { RowDecoder } from './row-decoder.ts';

const directory = mkdtempSync(join(tmpdir(), 'deterministic-'));
const opened: { close(): void }[] = [];
const kept = <Item extends { close(): void }>(item: Item): Item => {
  opened.push(item);
  return item;
};
afterAll(() => {
  for (const item of opened.toReversed()) item.close();
  rmSync(directory, { recursive: true });
});

type Name = keyof typeof TINY_ARCHITECTURES;
const LORA = { rank: 3, alpha: 0.7, targets: LINEAR_NAMES, initSeed: 1 };

async function openPolicy(name: Name) {
  const modelPath = join(directory, `${name}.gguf`);
  writeTinyGguf(modelPath, TINY_ARCHITECTURES[name]);
  const lora = { ...LORA, targets: linearNames(TINY_ARCHITECTURES[name]) };
  const own = await OrtPolicyModel.load({ modelPath, lora, numThreads: 2 });
  using file = GgufFile.open(modelPath);
  const rows = kept(new RowDecoder(new DecoderGraphs(file, readArchitecture(file), 2), 2));
  return { modelPath, own, policy: new DeterministicPolicy(own, rows) };
}

writeTinyGguf(join(directory, 'llama.gguf'), TINY_ARCHITECTURES.llama);
const random = randomSource(5);
const tokens = (length: number) => Array.from({ length }, () => Math.floor(((1 + random()) / 2) * 256));
const prompts = [tokens(70), tokens(3)];
/** Groups over a long prompt and a short one, with a fork inside a reply. */
const GROUPS: TinySequence[][] = prompts.map((prompt, group) => {
  const reply = tokens(20);
  const replies = [
    ...Array.from({ length: 5 }, (_, i) => tokens(1 + 17 * i)),
    reply,
    [...reply.slice(0, 9), ...tokens(30)],
  ];
  return replies.map((ids) => ({ tokenIds: [...prompt, ...ids], numPrompt: prompts[group]!.length }));
});

/** log p of every token after the prompt; `numAtOnce` sequences run together. */
function sampled(decoder: PagedDecoder, adapter: DecoderAdapter | null, numAtOnce: number): number[] {
  const scan = new RowScan(decoder.vocabSize);
  const batch = new DecoderBatch<DecoderAdapter>(decoder.batchTokens);
  const all = GROUPS.flat();
  const logprobs = all.map(() => [] as number[]);
  for (let first = 0; first < all.length; first += numAtOnce) {
    const running = all.slice(first, first + numAtOnce);
    for (let from = 0, numNow = Infinity; numNow > 0;) {
      batch.clear();
      const rows: { sequence: number; place: number }[] = [];
      for (const [sequence, { tokenIds, numPrompt }] of running.entries()) {
        // The whole prompt first, then token by token; the last one is never an input.
        const end = Math.min(tokenIds.length - 1, from === 0 ? numPrompt : numPrompt + from);
        for (let place = from === 0 ? 0 : numPrompt + from - 1; place < end; place++) {
          batch.add(
            { token: tokenIds[place]!, position: place, sequence, wantsLogits: place >= numPrompt - 1 },
            adapter,
          );
          if (place >= numPrompt - 1) rows.push({ sequence, place });
        }
      }
      numNow = batch.length;
      if (numNow > 0) {
        const logits = decoder.run(batch);
        for (const [index, { sequence, place }] of rows.entries()) {
          const row = logits.row(index);
          scanMaxima(row, scan);
          scanSums(scan, 1);
          logprobs[first + sequence]!.push(row[running[sequence]!.tokenIds[place + 1]!]! - logSumExp(scan));
        }
      }
      from++;
    }
    for (const sequence of running.keys()) decoder.forget(sequence, 0);
  }
  return logprobs.flat();
}

describe.each(Object.keys(TINY_ARCHITECTURES) as Name[])('%s', (name) => {
  test('rows have the bits of sequences sampled alone or together, with the adapter and without', async () => {
    const { modelPath, own, policy } = await openPolicy(name);
    kept(policy);
    randomizeAdapter(policy.lora, randomSource(9));
    const folder = mkdtempSync(join(directory, 'checkpoint-'));
    const optimizer = freshOptimizerState(policy.lora.tensors, 'rl');
    const { lora, architecture } = policy;
    writeCheckpointFiles(folder, { lora, architecture, optimizer, metrics: {} });
    const sizes = { capacityTokens: 2048, maxSequences: 16, batchTokens: 600 };
    const row = packTrie(GROUPS);
    for (const withoutAdapter of [false, true]) {
      const trained = (await policy.forward(row, { withoutAdapter, keepForBackward: !withoutAdapter })).logprobs;
      const ordinary = (await own.forward(row, { withoutAdapter })).logprobs;
      for (const [numAtOnce, numThreads] of [
        [1, 1],
        [3, 2],
        [14, 2],
      ] as const) {
        const decoder = kept(PagedDecoder.open(modelPath, { ...sizes, numThreads }));
        const adapter = withoutAdapter ? null : decoder.loadAdapter(join(folder, 'adapter.gguf'));
        const expected = Float32Array.from(sampled(decoder, adapter, numAtOnce));
        const numOther = ordinary.reduce((sum, logprob, i) => sum + Number(logprob !== expected[i]), 0);
        console.log(
          `${numAtOnce} at once: of ${trained.length} tokens the ordinary pass has other bits for ${numOther}`,
        );
        expect(trained).toEqual(expected);
      }
    }
  });
});

test('experts at near-ties are those of the sampler, also for gradients', async () => {
  const architecture = {
    ...TINY_ARCHITECTURES.qwen3moe,
    experts: { ...TINY_ARCHITECTURES.qwen3moe.experts, used: 1 },
  } as Architecture;
  const path = join(directory, 'ties.gguf');
  // Scores of the last expert differ from those of the first by less than rounding.
  const nearlyEqual = tinyTensors(architecture).map((tensor) => {
    if (!tensor.name.endsWith('ffn_gate_inp.weight')) return tensor;
    const data = Float32Array.from(tensor.data as Float32Array);
    const H = architecture.hiddenSize;
    data.set(
      data.subarray(0, H).map((value, i) => value * (1 + (i % 2 === 0 ? 1 : -1) * 2 ** -22)),
      data.length - H,
    );
    return { ...tensor, data };
  });
  writeTinyGguf(path, architecture, {}, nearlyEqual);
  const own = kept(await OrtPolicyModel.load({ modelPath: path, numThreads: 2 }));
  using file = GgufFile.open(path);
  const rows = kept(new RowDecoder(new DecoderGraphs(file, readArchitecture(file), 2), 2));
  const row = packTrie(GROUPS);
  const { logprobs, experts } = await rows.compute(row, null, {});
  const differences = async (options: ForwardOptions) => {
    const found = await own.forward(row, { ...options, withoutAdapter: true });
    const all = found.logprobs.map((logprob, i) => Math.abs(logprob - logprobs[i]!));
    return { worst: Math.max(...all), numLarge: all.filter((difference) => difference > 1e-3).length };
  };
  const [chosen, replayed] = [await differences({}), await differences({ experts })];
  console.log("differences of log-probabilities, by own choice and by the sampler's:", chosen, replayed);
  expect(chosen.numLarge).toBeGreaterThan(0);
  expect(replayed.worst).toBeLessThan(1e-5);
});

policyModelSuite('with the log-probabilities of the sampler', () => ({
  open: () => {
    const modelPath = join(directory, 'llama.gguf');
    using file = GgufFile.open(modelPath);
    const architecture = readArchitecture(file);
    const rows = kept(new RowDecoder(new DecoderGraphs(file, architecture, 2), 2));
    const own = new OrtPolicyModel(architecture, readWeights(file, architecture, LORA), { lora: LORA, numThreads: 2 });
    return new DeterministicPolicy(own, rows);
  },
  rows: [
    packTrie([
      [
        { tokenIds: [3, 9, 14, 20, 31, 7], numPrompt: 3 },
        { tokenIds: [3, 9, 14, 20, 5, 40, 11], numPrompt: 3 },
      ],
    ]),
    packTrie([[{ tokenIds: [17, 2, 45, 23, 8, 30, 1, 12], numPrompt: 2 }]]),
  ],
  vocabSize: TINY_ARCHITECTURES.llama.vocabSize,
}));
