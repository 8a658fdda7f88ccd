/**
 * Table of the service's speeds on this machine:   npm run bench   (about 5 minutes)
 *
 * Every figure is the median of interleaved rounds with different seeds, with its range and the load of other
 * processes: contention distorts such figures instead of scaling them.
 */
import { parseArgs } from 'node:util';

import { Trainyard } from '@trainyard/sdk';

import { ownService } from '../scripts/own-service.ts';
import { measureDecode, measureRollouts, publishAdapter } from './inference.ts';
import { machineLine, otherCores, sampleCpu, waitUntilQuiet } from './machine.ts';
import { measureGateway } from './gateway/one-client.ts';
import { DEFAULT_SHAPE, group, numTokens, openTrainingBench } from './training.ts';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '3' }, 'max-wait': { type: 'string', default: '60' } },
});
const numRounds = Number(values.rounds);
const maxWaitMs = Number(values['max-wait']) * 1000;

interface Measurement {
  readonly name: string;
  readonly unit: string;
  readonly how: string;
  /** @param seed different in each round */
  readonly measure: (seed: number) => Promise<number>;
}

interface Sample {
  readonly value: number;
  readonly others: number | null;
}

console.log(`${machineLine()}; other processes use ${cores(await waitUntilQuiet(maxWaitMs))} cores at the start`);

const results = new Map<Measurement, Sample[]>();
const service = await ownService();
try {
  const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
  const base = (await client.servedModels.list()).data.find((model) => model.parent === null)!.id;
  const adapter = await publishAdapter(client, base);
  await run([
    ...[1, 8, 32].map((numSequences): Measurement => ({
      name: `decode, ${numSequences} sequence${numSequences === 1 ? '' : 's'}`,
      unit: 'tok/s',
      how: `one streamed request, n=${numSequences}, 64 tokens each, F16; first to last token, over HTTP`,
      measure: (seed) => measureDecode(client, base, numSequences, seed),
    })),
    {
      name: 'rollouts, base model',
      unit: 'tok/s',
      how: '8 requests at once × n=8, 400-token prompts, 64 tokens each; all completion tokens ÷ wall time, over HTTP',
      measure: (seed) => measureRollouts(client, base, seed),
    },
    {
      name: 'rollouts, with adapter',
      unit: 'tok/s',
      how: 'the same on a trained model (r=8 on all linear layers)',
      measure: (seed) => measureRollouts(client, adapter, seed),
    },
  ]);
} finally {
  await service.close();
}

const training = await openTrainingBench();
try {
  await run([
    {
      name: 'training, shared prefix',
      unit: 'tok/s',
      how: 'group of 8 × (384 prompt + 64), forward + backward + AdamW; all 3,584 tokens of the 8 sequences counted',
      measure: async (seed) => numTokens(DEFAULT_SHAPE) / (await training.step([group(seed, DEFAULT_SHAPE)])).total,
    },
    {
      name: 'training, one by one',
      unit: 'tok/s',
      how: 'the same 8 sequences as rows of their own',
      measure: async (seed) =>
        numTokens(DEFAULT_SHAPE) /
        (await training.step(group(seed, DEFAULT_SHAPE).map((sequence) => [sequence]))).total,
    },
  ]);
} finally {
  training.close();
}

await run([
  {
    name: 'gateway, one answer',
    unit: 'ms',
    how: 'POST /v1/chat/completions on an engine that answers at once, one client, median of 300: all that HTTP, auth and JSON add',
    measure: () => measureGateway('answer'),
  },
  {
    name: 'gateway, one streamed token',
    unit: 'ms',
    how: 'the same engine streaming 2,000 tokens to one client: wall time ÷ tokens',
    measure: () => measureGateway('token'),
  },
]);

printTable();

/** Runs all measurements per round, so that a slow minute affects all of them. */
async function run(measurements: readonly Measurement[]): Promise<void> {
  for (let round = 0; round < numRounds; round++) {
    for (const measurement of measurements) {
      const before = sampleCpu();
      const value = await measurement.measure(1 + round);
      const sample = { value, others: otherCores(before, sampleCpu()) };
      results.set(measurement, [...(results.get(measurement) ?? []), sample]);
      process.stderr.write(
        `round ${round + 1}/${numRounds}  ${measurement.name}: ${value.toPrecision(4)} ${measurement.unit}\n`,
      );
    }
  }
}

function printTable(): void {
  console.log(`\n${'measurement'.padEnd(30)}${'median'.padStart(10)}  ${'range'.padEnd(17)} others  how`);
  for (const [{ name, unit, how }, samples] of results) {
    const sorted = samples.map(({ value }) => value).toSorted((a, b) => a - b);
    const median = sorted[Math.floor(sorted.length / 2)]!;
    const others = samples.every((sample) => sample.others === null)
      ? null
      : Math.max(...samples.map((sample) => sample.others ?? 0));
    const range = `${figure(sorted[0]!)}–${figure(sorted.at(-1)!)}`;
    console.log(
      `${name.padEnd(30)}${figure(median).padStart(10)}  ${`${range} ${unit}`.padEnd(17)} ${cores(others).padStart(6)}  ${how}`,
    );
  }
}

function figure(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toFixed(3);
}

function cores(value: number | null): string {
  return value === null ? 'n/a' : value.toFixed(2);
}
