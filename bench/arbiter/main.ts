/**
 * Streamed chats and a concurrent training job on the same cores:
 *
 *   npm run bench -- arbiter                            the normal service, and one in which one host computes at a time, in turns
 *   npm run bench -- arbiter --against unshared      instead, one without arbitration of the cores
 *   npm run bench -- arbiter --chats 1 --rounds 5    one chat at a time
 *   npm run bench -- arbiter --short                 the smallest run of all parts; its figures mean nothing
 *
 * In each round each service runs in turns: only chats, only training, both. `--settings engine-share=0.5`
 * (repeatable) are settings of both services.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { Trainyard } from '@trainyard/sdk';

import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { machineLine, otherCores, sampleCpu, waitUntilQuiet } from '../machine.ts';
import { markdownTable } from '../markdown-table.ts';
import { median, percentile } from '../percentile.ts';
import { settingsEnvironment } from '../settings-environment.ts';
import { FULL, registerTrained, SHORT, startJob, streamChats, type TrainedModel } from './load.ts';

const { values } = parseArgs({
  options: {
    chats: { type: 'string', multiple: true, default: ['1', '8'] },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '10' },
    settings: { type: 'string', multiple: true, default: [] },
    against: { type: 'string', multiple: true, default: ['turns'] },
    short: { type: 'boolean', default: false },
    'max-wait': { type: 'string', default: '60' },
  },
});
const sizes = values.short ? SHORT : FULL;
const numRounds = values.short ? 1 : Number(values.rounds);
const seconds = values.short ? 1 : Number(values.seconds);
const chatCounts = (values.short ? ['1'] : values.chats).map(Number);
/** Minimum gradient steps for a speed. */
const MIN_STEPS = values.short ? 1 : 3;

interface Side {
  readonly name: string;
  readonly service: OwnService;
  readonly client: Trainyard;
  readonly base: string;
  readonly trained: TrainedModel;
}

/** One round of one service with one number of chats. Gaps are in milliseconds, speeds in tokens per second. */
interface Round {
  readonly aloneP50: number;
  readonly aloneP95: number;
  readonly withTrainingP50: number;
  readonly withTrainingP95: number;
  readonly trainingAlone: number;
  readonly trainingWithChats: number;
  readonly others: number | null;
}

console.log(
  `${machineLine()}; other processes use ${figure((await waitUntilQuiet(Number(values['max-wait']) * 1000)) ?? Number.NaN)} cores at the start`,
);
const environment = settingsEnvironment(values.settings);
const sides: Side[] = [];
try {
  for (const name of ['shared', ...values.against]) {
    const program = ['bench/arbiter/other-service.ts', name] as const;
    sides.push(await openSide(name, await ownService({ environment, ...(name === 'shared' ? {} : { program }) })));
  }
  for (const numStreams of chatCounts) {
    const rounds = new Map<string, Round[]>(sides.map(({ name }) => [name, []]));
    for (let round = 0; round < numRounds; round++)
      for (let turn = 0; turn < sides.length; turn++) {
        const side = sides[(turn + round) % sides.length]!;
        const measured = await measure(side, numStreams, 1 + round);
        rounds.get(side.name)!.push(measured);
        console.error(
          `${numStreams} chats, round ${round + 1}/${numRounds}, ${side.name}: p95 ${figure(measured.aloneP95)} → ${figure(measured.withTrainingP95)} ms, training keeps ${figure(measured.trainingWithChats / measured.trainingAlone)}`,
        );
      }
    print(numStreams, rounds);
  }
} finally {
  for (const { service } of sides.toReversed()) await service.close();
}

async function openSide(name: string, service: OwnService): Promise<Side> {
  const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
  const base = (await client.servedModels.list()).data.find(({ parent }) => parent === null)!.id;
  const trained = await registerTrained(client, base, sizes);
  return { name, service, client, base, trained };
}

async function measure({ client, base, trained }: Side, numStreams: number, seed: number): Promise<Round> {
  const before = sampleCpu();
  const chatsUntil = async (end: Promise<unknown>, phase: number): Promise<number[]> => {
    const controller = new AbortController();
    const gaps = streamChats(client, base, { numStreams, seed: seed * 2 + phase, sizes, signal: controller.signal });
    await end;
    controller.abort();
    return await gaps;
  };
  const alone = await chatsUntil(delay(seconds * 1000), 0);
  const job = await startJob(client, trained);
  try {
    await Promise.all([delay(seconds * 1000), job.reached(MIN_STEPS)]);
    const trainingAlone = await job.takeSpeed();
    const withTraining = await chatsUntil(
      // A step in progress at the start of the chats would seem too fast.
      job.reached(1).then(async () => {
        await job.takeSpeed();
        await Promise.all([delay(seconds * 1000), job.reached(MIN_STEPS)]);
      }),
      1,
    );
    return {
      aloneP50: median(alone),
      aloneP95: percentile(alone, 0.95),
      withTrainingP50: median(withTraining),
      withTrainingP95: percentile(withTraining, 0.95),
      trainingAlone,
      trainingWithChats: await job.takeSpeed(),
      others: otherCores(before, sampleCpu()),
    };
  } finally {
    await job.stop();
  }
}

function print(numStreams: number, rounds: ReadonlyMap<string, readonly Round[]>): void {
  console.log(
    `\n${numStreams} chat${numStreams === 1 ? '' : 's'} at a time, ${sizes.replyTokens} tokens each; steps of ${sizes.groupSize} × (about ${sizes.promptWords} + ${sizes.trainedTokens}) tokens; medians of ${numRounds} rounds\n`,
  );
  const heads = [
    'cores',
    'gap alone p50 / p95, ms',
    'with training p50 / p95, ms',
    'p95 ÷ alone',
    'training alone, tok/s',
    'with chats, tok/s',
    'training keeps',
    'others used, cores',
  ];
  const rows = [...rounds].map(([name, own]) => {
    const over = (of: (round: Round) => number): string => figure(median(own.map(of)));
    return [
      name,
      `${over(({ aloneP50 }) => aloneP50)} / ${over(({ aloneP95 }) => aloneP95)}`,
      `${over(({ withTrainingP50 }) => withTrainingP50)} / ${over(({ withTrainingP95 }) => withTrainingP95)}`,
      over(({ withTrainingP95, aloneP95 }) => withTrainingP95 / aloneP95),
      over(({ trainingAlone }) => trainingAlone),
      over(({ trainingWithChats }) => trainingWithChats),
      over(({ trainingWithChats, trainingAlone }) => trainingWithChats / trainingAlone),
      figure(Math.max(...own.map(({ others }) => others ?? Number.NaN))),
    ];
  });
  console.log(markdownTable(heads, rows));
  const [[, shared] = [], ...others] = rounds;
  for (const [name, against] of others) {
    const ratio = (of: (own: Round, other: Round) => number): string =>
      figure(median((shared ?? []).map((own, round) => of(own, against[round]!))));
    console.log(
      `\nAlone, shared ÷ ${name}: chats ${ratio((own, other) => other.aloneP50 / own.aloneP50)} of the speed, training ${ratio((own, other) => own.trainingAlone / other.trainingAlone)}.`,
    );
  }
}

function figure(value: number): string {
  return Number.isNaN(value)
    ? 'n/a'
    : value >= 100
      ? value.toFixed(0)
      : value >= 10
        ? value.toFixed(1)
        : value.toFixed(2);
}
