/**
 * Parts of a decoder's step, with kernels in C and in WebAssembly, in turns: `npm run bench -- step` or
 * `node --conditions=@trainyard/source bench/step.ts [--rounds N] [--threads N] [--only SHAPE]…
 * [--prompt TOKENS] [--bf16 LIBRARY]`.
 *
 * Groups of sequences after prompts of 376 tokens (`--prompt`), without adapters; every row requests its logits. A round is three
 * steps per decoder. Parts are processor time of the calling thread, its polling included; the ratio is of the
 * processor time of all threads, round by round.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';

import { DecoderBatch, PagedDecoder } from '@trainyard/decoder';
import { openBf16Library } from '@trainyard/native';

import { testModel } from '../tests/support/model.ts';
import { machineLine, otherCores, sampleCpu } from './machine.ts';
import { median } from './percentile.ts';

const STEPS = 3;
/** Groups, sequences per group. */
const SHAPES = { '1': [1, 1], '8 alone': [8, 1], '32 in 4 groups': [4, 8], '64 in 8 groups': [8, 8] } as const;

const { values: flags } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    threads: { type: 'string', default: String(availableParallelism()) },
    only: { type: 'string', multiple: true },
    prompt: { type: 'string', default: '376' },
    bf16: { type: 'string' },
  },
});
const numThreads = Number(flags.threads);
const numRounds = Number(flags.rounds);
const promptTokens = Number(flags.prompt);
const before = sampleCpu();
const bf16 = flags.bf16 === undefined ? null : openBf16Library(flags.bf16, numThreads);
const clock = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};
const sizes = { maxSequences: 64, numThreads, batchTokens: 512, capacityTokens: 8192, bf16, clock };
const decoders = [true, false].map((usesNativeKernels) =>
  PagedDecoder.open(testModel().base, { ...sizes, usesNativeKernels }),
);

interface Cost {
  readonly cpuMs: number;
  readonly wallMs: number;
  readonly waitMs: number;
  readonly partMs: Readonly<Record<string, number>>;
}

console.log(`${machineLine()}, ${numThreads} threads; milliseconds per step, median of ${numRounds} rounds`);
for (const [shape, [numGroups, groupSize]] of Object.entries(SHAPES)) {
  if (flags.only !== undefined && !flags.only.includes(shape)) continue;
  const measured = decoders.map((decoder) => ({ decoder, costs: [] as Cost[] }));
  for (const { decoder } of measured) prefill(decoder, numGroups, groupSize);
  for (let round = 0; round < numRounds; round++)
    for (const { decoder, costs } of measured) costs.push(costOfSteps(decoder, numGroups * groupSize));
  for (const { decoder, costs } of measured) {
    const middle = (of: (cost: Cost) => number) => median(costs.map(of)).toFixed(1);
    const parts = Object.keys(costs[0]!.partMs).map((part) => `${part} ${middle(({ partMs }) => partMs[part]!)}`);
    const kernels = decoder.instructions ?? 'wasm';
    console.log(
      `${shape.padEnd(15)} ${kernels.padEnd(7)} processor ${middle(({ cpuMs }) => cpuMs)}, wall ${middle(({ wallMs }) => wallMs)}: ${parts.join(', ')}; waiting ${middle(({ waitMs }) => waitMs)}`,
    );
  }
  const [own, twin] = measured.map(({ costs }) => costs);
  const ratio = median(own!.map(({ cpuMs }, round) => twin![round]!.cpuMs / cpuMs));
  console.log(`${shape.padEnd(15)} WebAssembly takes ${ratio.toFixed(2)} times the processor time`);
}
const others = otherCores(before, sampleCpu());
if (others !== null) console.log(`others kept ${others.toFixed(2)} cores busy`);
for (const decoder of decoders) decoder.close();

function prefill(decoder: PagedDecoder, numGroups: number, groupSize: number): void {
  for (let sequence = 0; sequence < sizes.maxSequences; sequence++) decoder.forget(sequence, 0);
  for (let group = 0; group < numGroups; group++) {
    const first = group * groupSize;
    const batch = new DecoderBatch(promptTokens);
    for (let position = 0; position < promptTokens; position++) {
      const token = (1000 + 7919 * position * (group + 2)) % decoder.vocabSize;
      batch.add({ token, position, sequence: first, wantsLogits: false }, null);
    }
    decoder.run(batch);
    for (let i = 1; i < groupSize; i++) decoder.share(first, first + i, promptTokens);
  }
}

function costOfSteps(decoder: PagedDecoder, numRows: number): Cost {
  const { partMs: partsBefore, waitMs: waitBefore } = decoder;
  const cpu = process.cpuUsage();
  const startedAtMs = performance.now();
  for (let position = promptTokens; position < promptTokens + STEPS; position++) {
    const batch = new DecoderBatch(numRows);
    for (let sequence = 0; sequence < numRows; sequence++) {
      const token = (1000 + 7919 * position + 31 * sequence) % decoder.vocabSize;
      batch.add({ token, position, sequence, wantsLogits: true }, null);
    }
    decoder.run(batch);
  }
  for (let sequence = 0; sequence < numRows; sequence++) decoder.forget(sequence, promptTokens);
  const { user, system } = process.cpuUsage(cpu);
  const parts = Object.entries(decoder.partMs).map(([part, ms]) => [
    part,
    (ms - partsBefore[part as keyof typeof partsBefore]) / STEPS,
  ]);
  return {
    cpuMs: (user + system) / 1000 / STEPS,
    wallMs: (performance.now() - startedAtMs) / STEPS,
    waitMs: (decoder.waitMs - waitBefore) / STEPS,
    partMs: Object.fromEntries(parts) as Record<string, number>,
  };
}
