/**
 * Queue times, adapter cache misses and the cost of 1,000 rollouts for 10, 1,000 and 100,000 models, from
 * measured step times:
 *
 *   npm run lab -- simulate                                        from the times in bench/simulate/times.json
 *   npm run lab -- simulate --times mine.json                   from others, of the same shape
 *   npm run lab -- simulate --server-price 2.5 --trainer-price 4   price per hour of a sampling server, of a trainer
 *   npm run lab -- simulate --check                             a small run on this machine: prediction and measurement (some minutes)
 *   npm run lab -- simulate --check --keep mine.json            and saves the measured times
 *
 * Its assumptions are in docs/guide/scaling.md.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

import { ownService } from '../../scripts/own-service.ts';
import { machineLine, otherCores, sampleCpu } from '../machine.ts';
import { markdownTable } from '../markdown-table.ts';
import { percentile } from '../percentile.ts';
import type { MeasuredTimes } from './measured-times.ts';
import { RealService } from './real-service.ts';
import { fleetFor, type Load, type Prediction, simulateLoad, simulateLoops, type StepShape } from './simulate.ts';

/** The part of its speed that each keeps while the other runs: docs/benchmarks.md, "Chats during training". */
const SHARED_SPEED = { sampling: 0.85, training: 0.4 };
/** Steps of a simulation, over all its models. */
const NUM_STEPS = 5_000;
const CHECK = { numModels: 3, stepsEach: 3, shape: { numGroups: 2, groupSize: 4, promptTokens: 64, replyTokens: 32 } };

const { values } = parseArgs({
  options: {
    times: { type: 'string', default: join(import.meta.dirname, 'times.json') },
    models: { type: 'string', multiple: true, default: ['10', '1000', '100000'] },
    groups: { type: 'string', default: '8' },
    'group-size': { type: 'string', default: '4' },
    'prompt-tokens': { type: 'string', default: '300' },
    'reply-tokens': { type: 'string', default: '64' },
    'runs-a-day': { type: 'string', default: '0.5' },
    'steps-a-run': { type: 'string', default: '50' },
    'chats-a-day': { type: 'string', default: '20' },
    'max-sequences': { type: 'string', default: '64' },
    'max-adapters': { type: 'string', default: '16' },
    use: { type: 'string', default: '0.6' },
    'server-price': { type: 'string', default: '1' },
    'trainer-price': { type: 'string', default: '1' },
    seed: { type: 'string', default: '1' },
    check: { type: 'boolean', default: false },
    keep: { type: 'string' },
  },
});
const seed = Number(values.seed);
const limits = { maxSequences: Number(values['max-sequences']), maxAdapters: Number(values['max-adapters']) };

if (values.check) await check();
else predict();

function predict(): void {
  const times = JSON.parse(readFileSync(values.times, 'utf8')) as MeasuredTimes;
  const shape: StepShape = {
    numGroups: Number(values.groups),
    groupSize: Number(values['group-size']),
    promptTokens: Number(values['prompt-tokens']),
    replyTokens: Number(values['reply-tokens']),
  };
  const rows = values.models.map((models) => {
    const load: Load = {
      numModels: Number(models),
      runsPerDay: Number(values['runs-a-day']),
      stepsPerRun: Number(values['steps-a-run']),
      chatsPerDay: Number(values['chats-a-day']),
    };
    // Each has its own machine, so that neither slows down the other.
    const options = { shape, times: { ...times, sharedSpeed: { sampling: 1, training: 1 } } };
    const fleet = fleetFor(load, options, limits, Number(values.use));
    const prediction = simulateLoad(load, NUM_STEPS, { ...options, fleet, seed });
    return [
      load.numModels.toLocaleString('en'),
      String(fleet.numServers),
      String(fleet.numTrainers),
      ...cellsOf(prediction, fleet),
    ];
  });
  console.log(
    markdownTable(
      [
        'models',
        'servers',
        'trainers',
        'in use',
        'a group waits, s, p50 / p95',
        'a job waits, s, p50 / p95',
        'adapter misses',
        'cost of 1,000 rollouts',
      ],
      rows,
    ),
  );
  console.log(
    `\n${shape.numGroups} × ${shape.groupSize} rollouts per step, prompts of ${shape.promptTokens} tokens, replies of ${shape.replyTokens}; a model has ` +
      `${values['runs-a-day']} runs of ${values['steps-a-run']} steps and ${values['chats-a-day']} chats a day; ${limits.maxSequences} sequences and ` +
      `${limits.maxAdapters} adapters a server; prices of an hour: ${values['server-price']} and ${values['trainer-price']}.`,
  );
}

function cellsOf(prediction: Prediction, fleet: { numServers: number; numTrainers: number }): string[] {
  const { samplingWaits, trainingWaits, numRollouts, seconds } = prediction;
  const hourly =
    fleet.numServers * Number(values['server-price']) + fleet.numTrainers * Number(values['trainer-price']);
  const waits = (list: readonly number[]): string =>
    `${figure(percentile(list, 0.5))} / ${figure(percentile(list, 0.95))}`;
  return [
    `${percent(prediction.samplingUse)}, ${percent(prediction.trainingUse)}`,
    waits(samplingWaits),
    waits(trainingWaits),
    percent(prediction.adapterMissShare),
    ((hourly * seconds) / 3600 / (numRollouts / 1000)).toFixed(2),
  ];
}

/**
 * Runs the same small load on a service of this machine and in the simulation, with times measured just
 * before.
 */
async function check(): Promise<void> {
  const { numModels, stepsEach, shape } = CHECK;
  console.log(
    `${machineLine()}; ${numModels} models × ${stepsEach} steps of ${shape.numGroups} × ${shape.groupSize} rollouts`,
  );
  const service = await ownService();
  try {
    const real = new RealService(service);
    await real.begin();
    const before = sampleCpu([service.pid]);
    const times = { ...(await real.measure(shape)), sharedSpeed: SHARED_SPEED };
    console.log(
      `measured: ${JSON.stringify(times, (_key, value: unknown) => (typeof value === 'number' ? Number(value.toPrecision(3)) : value))}`,
    );
    if (values.keep !== undefined) writeFileSync(values.keep, `${JSON.stringify(times, null, 2)}\n`);
    const models = await Promise.all(Array.from({ length: numModels }, (_, index) => real.register(`loop-${index}`)));
    const from = performance.now();
    const steps = await Promise.all(
      models.map(async (model) => {
        const own = [];
        for (let step = 0; step < stepsEach; step++) own.push(await real.step(model, shape));
        return own;
      }),
    );
    const seconds = (performance.now() - from) / 1000;
    const all = steps.flat();
    const fleet = { numServers: 1, numTrainers: 1, ...limits };
    const predicted = simulateLoops(numModels, stepsEach, { times, shape, fleet, seed });
    const rows: [string, number, number][] = [
      ['all steps, s', predicted.seconds, seconds],
      ['rollouts of a step, s', mean(predicted.samplingSeconds), mean(all.map(({ sampling }) => sampling))],
      [
        'job of a step and the wait for it, s',
        mean(predicted.trainingSeconds),
        mean(all.map(({ training }) => training)),
      ],
      [
        'rollouts an hour',
        (predicted.numRollouts / predicted.seconds) * 3600,
        (predicted.numRollouts / seconds) * 3600,
      ],
    ];
    console.log(
      markdownTable(
        ['', 'predicted', 'measured', 'predicted ÷ measured'],
        rows.map(([what, one, other]) => [what, figure(one), figure(other), (one / other).toFixed(2)]),
      ),
    );
    console.log(
      `others computed on ${otherCores(before, sampleCpu([service.pid]))?.toFixed(1) ?? 'n/a'} cores meanwhile`,
    );
  } finally {
    await service.close();
  }
}

function mean(list: readonly number[]): number {
  return list.reduce((sum, value) => sum + value, 0) / list.length;
}

function figure(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

function percent(share: number): string {
  return `${(share * 100).toFixed(0)} %`;
}
