/**
 * A step of the decoder and of llama.cpp, in turns, and the cost of adapters:
 * `npm run bench -- runners` or `node --conditions=@trainyard/source bench/runners.ts [--rounds N] [--threads N]
 * [--only SHAPE]…`.
 *
 * Groups of sequences after prompts of 376 tokens, each with its own tokens; every row requests its logits.
 * Wall time and processor time of all threads are medians
 * over the rounds: on a busy machine the processor time is more reliable.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { PagedDecoder } from '@trainyard/decoder';
import { LlamaRunner, StepBatch, type ModelRunner, type RunnerAdapter } from '@trainyard/engine';
import { GgufFile, LlamaModel } from '@trainyard/native';
import { readArchitecture } from '@trainyard/transformer';
import { writeAdapter } from '@trainyard/transformer/testing';

import { testModel } from '../tests/support/model.ts';
import { machineLine, otherCores, sampleCpu } from './machine.ts';
import { median } from './percentile.ts';

const PROMPT_TOKENS = 376;
const RANK = 8;
const MAX_ADAPTERS = 16;
/** Groups, sequences per group, adapters that they use in turns. */
const SHAPES = {
  '1': [1, 1, 0],
  '8 of a group': [1, 8, 0],
  '8 alone': [8, 1, 0],
  '32 in 4 groups': [4, 8, 0],
  '64 in 8 groups': [8, 8, 0],
  '1, adapter': [1, 1, 1],
  '64 in 8 groups, adapter': [8, 8, 1],
  '64 in 8 groups, 4 adapters': [8, 8, 4],
  '64 in 8 groups, 16 adapters': [8, 8, 16],
} as const;

const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    threads: { type: 'string', default: String(availableParallelism()) },
    only: { type: 'string', multiple: true },
  },
});
const numThreads = Number(flags.threads);
const numRounds = Number(flags.rounds);
const sizes = { maxSequences: 64, numThreads, batchTokens: 512 };
const { base, f16 } = testModel();
const folder = mkdtempSync(join(tmpdir(), 'bench-runners-'));
const before = sampleCpu();

const runners: Record<string, () => ModelRunner> = {
  exact: () => PagedDecoder.open(base, { ...sizes, capacityTokens: 8192 }),
  'llama.cpp F16': () => new LlamaRunner(LlamaModel.load(f16), { ...sizes, contextTokens: 8192 }),
  'llama.cpp Q4_1': () => new LlamaRunner(LlamaModel.load(base), { ...sizes, contextTokens: 8192 }),
};
const adapterPaths = Array.from({ length: MAX_ADAPTERS }, (_, i) => adapterFile(i));
const opened = Object.entries(runners).map(([name, open]) => {
  const runner = open();
  return { name, runner, adapters: adapterPaths.map((path) => runner.loadAdapter(path)) };
});

console.log(`${machineLine()}, ${numThreads} threads; milliseconds: wall (processor time), median of ${numRounds}`);
for (const [shape, [numGroups, groupSize, numAdapters]] of Object.entries(SHAPES)) {
  if (flags.only !== undefined && !flags.only.includes(shape)) continue;
  const able = opened.filter(({ runner }) => numAdapters <= runner.adaptersPerBatch);
  const measured = able.map((one) => ({ ...one, steps: [] as Cost[], prefills: [] as Cost[] }));
  for (let round = 0; round < numRounds; round++) {
    for (const { runner, adapters, steps, prefills } of measured) {
      const used = adapters.slice(0, numAdapters);
      const sequences = numGroups * groupSize;
      for (let group = 0; group < numGroups; group++) {
        prefills.push(await cost(runner, prompt(runner, group * groupSize, round, used[0] ?? null)));
        for (let i = 1; i < groupSize; i++) runner.share(group * groupSize, group * groupSize + i, PROMPT_TOKENS);
      }
      for (let position = PROMPT_TOKENS; position < PROMPT_TOKENS + 3; position++)
        steps.push(await cost(runner, rows(runner, sequences, position, used)));
      for (let sequence = 0; sequence < sequences; sequence++) runner.forget(sequence, 0);
    }
  }
  for (const { name, steps, prefills } of measured)
    console.log(
      `${shape.padEnd(28)} ${name.padEnd(15)} step ${formatCosts(steps)}   prompt of ${PROMPT_TOKENS} ${formatCosts(prefills)}`,
    );
}
const others = otherCores(before, sampleCpu());
if (others !== null) console.log(`others kept ${others.toFixed(2)} cores busy`);
for (const { runner } of opened) runner.close();
rmSync(folder, { recursive: true });

interface Cost {
  readonly wallMs: number;
  readonly cpuMs: number;
}

async function cost(runner: ModelRunner, batch: StepBatch): Promise<Cost> {
  const cpu = process.cpuUsage();
  const startedAtMs = performance.now();
  await runner.run(batch);
  const wallMs = performance.now() - startedAtMs;
  const { user, system } = process.cpuUsage(cpu);
  return { wallMs, cpuMs: (user + system) / 1000 };
}

function formatCosts(costs: readonly Cost[]): string {
  const [wall, cpu] = [median(costs.map(({ wallMs }) => wallMs)), median(costs.map(({ cpuMs }) => cpuMs))];
  return `${wall.toFixed(0).padStart(5)} (${cpu.toFixed(0).padStart(5)})`;
}

function token(runner: ModelRunner, i: number): number {
  return (1000 + i * 7919) % runner.vocabSize;
}

function prompt(runner: ModelRunner, sequence: number, round: number, adapter: RunnerAdapter | null): StepBatch {
  const batch = new StepBatch(runner.batchTokens);
  for (let i = 0; i < PROMPT_TOKENS; i++)
    batch.add(
      { token: token(runner, i * (sequence + round + 2)), position: i, sequence, wantsLogits: i === PROMPT_TOKENS - 1 },
      adapter,
    );
  return batch;
}

function rows(runner: ModelRunner, sequences: number, position: number, adapters: readonly RunnerAdapter[]): StepBatch {
  const batch = new StepBatch(runner.batchTokens);
  for (let sequence = 0; sequence < sequences; sequence++)
    batch.add(
      { token: token(runner, position + 31 * sequence), position, sequence, wantsLogits: true },
      adapters[sequence % adapters.length] ?? null,
    );
  return batch;
}

/** An adapter of all linear layers. */
function adapterFile(seed: number): string {
  using file = GgufFile.open(base);
  const path = join(folder, `${seed}.gguf`);
  const options = { rank: RANK, alpha: 2 * RANK };
  return writeAdapter(path, readArchitecture(file), options, (_, i) => 0.02 * Math.sin(i * (seed + 1)));
}
