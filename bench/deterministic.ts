/**
 * Cost of `--deterministic`:   npm run bench -- deterministic   (about 3 minutes)
 *
 * An ordinary trainer and a deterministic one take the same steps in turns; the result is the ratio within a
 * round. The log-probabilities of the second equal the sampler's bit for bit, so their distance to the
 * first's is the error of an ordinary step.
 */
import { parseArgs } from 'node:util';
import { DEFAULT_LORA_CONFIG, openTrainer } from '@trainyard/trainer';

import { defaultModelPath } from '../scripts/own-service.ts';
import { machineLine, otherCores, sampleCpu, waitUntilQuiet } from './machine.ts';
import { median } from './percentile.ts';
import { group, openTrainingBench, type GroupShape } from './training.ts';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '3' }, 'max-wait': { type: 'string', default: '60' } },
});

const SHAPES: readonly GroupShape[] = [
  { numSequences: 8, promptTokens: 384, completionTokens: 64 },
  { numSequences: 8, promptTokens: 64, completionTokens: 64 },
  { numSequences: 1, promptTokens: 384, completionTokens: 64 },
];

const maxWaitMs = Number(values['max-wait']) * 1000;
console.log(`${machineLine()}; others use ${(await waitUntilQuiet(maxWaitMs))?.toFixed(2) ?? 'unknown'} cores`);
const megabytes = () => process.memoryUsage().rss / 1e6;
const options = { modelPath: defaultModelPath(), numThreads: 2 };
const trainers = [await openTrainer(options)];
const benches = [await openTrainingBench(await trainers[0]!.policy(DEFAULT_LORA_CONFIG))];
const warm = { ...SHAPES[0]!, promptTokens: 16, completionTokens: 16 };
await benches[0]!.step([group(99, warm)]);
const before = megabytes();
trainers.push(await openTrainer({ ...options, isDeterministic: true }));
benches.push(await openTrainingBench(await trainers[1]!.policy(DEFAULT_LORA_CONFIG)));
await benches[1]!.step([group(99, warm)]);
console.log(`memory of the second trainer: ${(megabytes() - before).toFixed(0)} MB`);

console.log(
  '\n| step | ordinary, s | deterministic, s | ratio | tokens with other bits | mean / largest difference | others, cores |',
);
console.log('|---|---|---|---|---|---|---|');
for (const shape of SHAPES) {
  const seconds: [number[], number[]] = [[], []];
  const differences: number[] = [];
  let others = 0;
  for (let round = 0; round < Number(values.rounds); round++) {
    await waitUntilQuiet(maxWaitMs);
    const logprobs: Float32Array[] = [];
    for (const [side, bench] of benches.entries()) {
      const cpu = sampleCpu();
      const step = await bench.step([group(1 + round, shape)]);
      others = Math.max(others, otherCores(cpu, sampleCpu()) ?? 0);
      seconds[side]!.push(step.total);
      logprobs.push(step.logprobs);
    }
    differences.push(...logprobs[0]!.map((logprob, i) => Math.abs(logprob - logprobs[1]![i]!)));
  }
  const ratios = seconds[0].map((ordinary, round) => seconds[1][round]! / ordinary);
  const mean = differences.reduce((sum, difference) => sum + difference, 0) / differences.length;
  const numOther = differences.filter((difference) => difference !== 0).length;
  console.log(
    `| ${shape.numSequences} × (${shape.promptTokens} + ${shape.completionTokens}) | ${median(seconds[0]).toFixed(2)} | ${median(seconds[1]).toFixed(2)} | ` +
      `${median(ratios).toFixed(2)} | ${numOther} of ${differences.length} | ${mean.toExponential(1)} / ${Math.max(...differences).toExponential(1)} | ${others.toFixed(2)} |`,
  );
}
for (const bench of benches) bench.close();
for (const trainer of trainers) trainer.close();
