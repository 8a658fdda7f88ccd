/**
 * Training step compared with PyTorch and peft on this machine:   npm run bench -- train   (about 10 minutes)
 *
 * Both sides take turns on the same sequences with the same weights, two threads each; the result is the
 * ratio within a round, because other processes slow down both. `--long` adds rows that must fit into memory.
 * If "npm run bf16" has fetched its library, ours is also measured in bf16.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { GraphTiming } from '@trainyard/trainer';
import { measureProductRate } from '@trainyard/transformer';

import { libraryDirectory, ONEDNN } from '../scripts/lib/model-source.mjs';
import { defaultModelPath } from '../scripts/own-service.ts';
import { writeBaseWeights } from './base-weights.ts';
import { machineLine, otherCores, sampleCpu, waitUntilQuiet } from './machine.ts';
import { openTorchTraining, type TorchMode, type TorchTraining } from './torch-training.ts';
import {
  group,
  numTokens,
  openBf16Policy,
  openTrainingBench,
  type GroupShape,
  type TrainingBench,
} from './training.ts';
import { median } from './percentile.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    'max-wait': { type: 'string', default: '60' },
    long: { type: 'boolean', default: false },
  },
});

const SHAPES: readonly GroupShape[] = [
  { numSequences: 8, promptTokens: 384, completionTokens: 64 },
  { numSequences: 8, promptTokens: 64, completionTokens: 64 },
  { numSequences: 1, promptTokens: 384, completionTokens: 64 },
];
const NUM_THREADS = 2;
const maxWaitMs = Number(values['max-wait']) * 1000;
const GIGABYTE = 1e9;

const root = join(import.meta.dirname, '..');
const python = execFileSync(process.execPath, [join(root, 'scripts/torch-environment.mjs')], {
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit'],
}).trim();
const directory = mkdtempSync(join(tmpdir(), 'trainyard-bench-'));
const weightsPath = join(directory, 'model.safetensors');

interface Side {
  readonly name: string;
  /** Skipped for shapes of one sequence, which have nothing to pack. */
  readonly isForGroups: boolean;
  /** @returns seconds and log-probabilities of the trained tokens */
  readonly step: (seed: number, shape: GroupShape) => Promise<{ seconds: number; logprobs: ArrayLike<number> }>;
}

const torches: TorchTraining[] = [];
try {
  console.log(`${machineLine()}; other processes use ${cores(await waitUntilQuiet(maxWaitMs))}`);
  const config = writeBaseWeights(defaultModelPath(), weightsPath);
  const open = async (dtype: 'float32' | 'bfloat16') => {
    const torch = await openTorchTraining({ python, weightsPath, config, dtype, numThreads: NUM_THREADS });
    torches.push(torch);
    return torch;
  };
  const f32 = await open('float32');
  const bf16 = await open('bfloat16');
  const ours = await openTrainingBench();
  const oneDnnPath = process.env['TRAINYARD_ONEDNN'] ?? join(libraryDirectory(process.env, root), ONEDNN.fileName);
  const rounded = existsSync(oneDnnPath) ? await openTrainingBench(openBf16Policy(oneDnnPath)) : null;
  let torchPeakBytes = 0;
  const torchSide = (name: string, torch: TorchTraining, mode: TorchMode): Side => ({
    name: `PyTorch ${torch.version} ${name}`,
    isForGroups: mode === 'packed',
    step: async (seed, shape) => {
      const step = await torch.step(mode, group(seed, shape), shape.promptTokens);
      // Packed steps come first, and the peak of a process only grows.
      if (torch === f32 && mode === 'packed') torchPeakBytes ||= shape === SHAPES[0] ? step.peakBytes : 0;
      return step;
    },
  });
  let mathematicsShare = 0;
  const sides: readonly Side[] = [
    {
      name: 'ours f32, packed',
      isForGroups: false,
      step: async (seed, shape) => {
        const { total, mathematics, logprobs } = await ours.step([group(seed, shape)]);
        mathematicsShare = mathematics / total;
        return { seconds: total, logprobs };
      },
    },
    ...(rounded === null ? [] : [roundedSide(rounded)]),
    torchSide('f32, packed by hand', f32, 'packed'),
    torchSide('bf16, packed by hand', bf16, 'packed'),
    torchSide('f32, one row each', f32, 'separate'),
    torchSide('bf16, one row each', bf16, 'separate'),
  ];
  for (const shape of SHAPES) {
    const own = sides.filter((side) => !side.isForGroups || shape.numSequences > 1);
    const seconds = own.map((): number[] => []);
    // Sessions and kernels are created in the first step, of any length.
    for (const side of own) await side.step(99, { ...shape, promptTokens: 16, completionTokens: 16 });
    ours.takeRuns();
    const others: (number | null)[] = [];
    let difference = 0;
    const runs: GraphTiming[] = [];
    const peakRates: number[] = [];
    for (let round = 0; round < Number(values.rounds); round++) {
      await waitUntilQuiet(maxWaitMs);
      const logprobs: ArrayLike<number>[] = [];
      for (const [index, side] of own.entries()) {
        const before = sampleCpu();
        const step = await side.step(1 + round, shape);
        others.push(otherCores(before, sampleCpu()));
        seconds[index]!.push(step.seconds);
        process.stderr.write(`round ${round + 1}/${values.rounds}  ${side.name}: ${step.seconds.toFixed(1)} s\n`);
        logprobs.push(step.logprobs);
        runs.push(...ours.takeRuns());
      }
      const exact = own.findIndex(({ name }) => name.includes(' f32, one row each'));
      difference = Math.max(difference, largestDifference(logprobs[0]!, logprobs[exact]!));
      peakRates.push(measureProductRate(NUM_THREADS));
    }
    const most = others.includes(null) ? null : Math.max(...others.map((used) => used ?? 0));
    printComparison(shape, own, seconds, { others: most, difference });
    printParts(runs, seconds[0]!, peakRates);
    console.log(`packing, loss and AdamW in TypeScript: ${(100 * mathematicsShare).toFixed(1)} % of a step`);
  }
  const usage = process.resourceUsage().maxRSS * 1024;
  console.log(
    `\npeak memory, packed f32: ours ${gigabytes(usage)} (with this bench), PyTorch ${gigabytes(torchPeakBytes)} after its first packed step`,
  );
  for (const torch of torches.splice(0)) torch.close();
  if (values.long) {
    for (const [name, shape] of [
      ['one trajectory of 8,192', { numSequences: 1, promptTokens: 6144, completionTokens: 2048 }],
      ['16 × 2,048 with 1,500 shared', { numSequences: 16, promptTokens: 1500, completionTokens: 548 }],
    ] as const) {
      const { total } = await ours.step([group(1, shape)]);
      const rss = process.resourceUsage().maxRSS * 1024;
      console.log(
        `${name}: ${total.toFixed(0)} s, ${(numTokens(shape) / total).toFixed(0)} tok/s, peak RSS ${gigabytes(rss)}`,
      );
    }
  }
  ours.close();
  rounded?.close();
} finally {
  for (const torch of torches) torch.close();
  rmSync(directory, { recursive: true });
}

function roundedSide(bench: TrainingBench): Side {
  return {
    name: 'ours bf16, packed',
    isForGroups: false,
    step: async (seed, shape) => {
      const { total, logprobs } = await bench.step([group(seed, shape)]);
      return { seconds: total, logprobs };
    },
  };
}

function printComparison(
  shape: GroupShape,
  sides: readonly Side[],
  seconds: readonly (readonly number[])[],
  { others, difference }: { readonly others: number | null; readonly difference: number },
): void {
  const { numSequences, promptTokens, completionTokens } = shape;
  console.log(
    `\n${numSequences} × (${promptTokens} + ${completionTokens}), all ${numTokens(shape)} tokens counted; others used up to ${cores(others)}; ` +
      `largest |Δlogprob| of ours and PyTorch f32: ${difference.toExponential(1)}`,
  );
  console.log(`${'side'.padEnd(36)}${'tok/s'.padStart(8)}${'ours ÷ it'.padStart(12)}  range of the ratio`);
  for (const [index, side] of sides.entries()) {
    const ratios = seconds[index]!.map((value, round) => value / seconds[0]![round]!).toSorted((a, b) => a - b);
    const rate = numTokens(shape) / median(seconds[index]!);
    console.log(
      `${side.name.padEnd(36)}${rate.toFixed(0).padStart(8)}${median(ratios).toFixed(2).padStart(12)}  ` +
        `${ratios[0]!.toFixed(2)}–${ratios.at(-1)!.toFixed(2)}`,
    );
  }
}

/** Time of our step by graph: lanes run in parallel, so their times add up to twice the wall time. */
function printParts(runs: readonly GraphTiming[], seconds: readonly number[], peakRates: readonly number[]): void {
  const total = 1000 * seconds.reduce((sum, value) => sum + value, 0);
  console.log(`${'graph'.padEnd(30)}${'% of step'.padStart(10)}${'GF/s'.padStart(8)}`);
  for (const [graph, own] of Map.groupBy(runs, (run) => run.graph)) {
    const milliseconds = own.reduce((sum, run) => sum + run.milliseconds, 0);
    const rate = (NUM_THREADS * own.reduce((sum, run) => sum + run.flops, 0)) / milliseconds / 1e6;
    const share = (100 * milliseconds) / NUM_THREADS / total;
    console.log(`${graph.padEnd(30)}${share.toFixed(1).padStart(10)}${rate.toFixed(0).padStart(8)}`);
  }
  const busy = runs.reduce((sum, run) => sum + run.milliseconds, 0) / NUM_THREADS;
  const flopsOfStep = runs.reduce((sum, run) => sum + run.flops, 0) / seconds.length;
  const shares = seconds
    .map((own, round) => (100 * flopsOfStep) / own / 1e9 / peakRates[round]!)
    .toSorted((x, y) => x - y);
  console.log(
    `${'waiting, packing, mathematics'.padEnd(30)}${(100 - (100 * busy) / total).toFixed(1).padStart(10)}\n` +
      `whole step: ${median(shares).toFixed(0)} % of the rate of a large product in the same round ` +
      `(${shares[0]!.toFixed(0)}–${shares.at(-1)!.toFixed(0)} %; that product: ${median(peakRates).toFixed(0)} GF/s)`,
  );
}

/** Compares sorted values, because the order of sequences may differ. */
function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  const [one, other] = [a, b].map((all) => Float64Array.from(all).toSorted());
  if (one!.length !== other!.length) throw new Error(`${one!.length} trained tokens here, ${other!.length} there`);
  return one!.reduce((worst, value, index) => Math.max(worst, Math.abs(value - other![index]!)), 0);
}

function gigabytes(bytes: number): string {
  return `${(bytes / GIGABYTE).toFixed(2)} GB`;
}

function cores(value: number | null): string {
  return value === null ? 'an unknown number of cores' : `${value.toFixed(2)} cores`;
}
