/**
 * Latency that the service adds to a back end that answers at once, compared with LiteLLM's proxy:
 *
 *   npm run bench -- gateway                              100 and 500 streamed requests per second, three rounds of 10 s each
 *   npm run bench -- gateway --rate 500 --rounds 5     one rate
 *   npm run bench -- gateway --against FOLDER --without-litellm     another checkout compared with this one
 *   npm run bench -- gateway --engine-port --without-litellm     an engine behind a port compared with hosts of the service
 *   npm run bench -- gateway --awake                   processes of the lowest class keep the cores busy (Linux)
 *   npm run bench -- gateway --short                   the smallest run of all parts; its figures mean nothing
 *
 * Rounds are interleaved, and each target gets requests at the same random times. bench/README.md defines "added".
 */
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { machineLine, otherCores, sampleCpu, secondsOf, waitUntilQuiet } from '../machine.ts';
import { median, percentile } from '../percentile.ts';
import { keepAwake, startLitellm, startModule, type Started } from './processes.ts';
import { load, warmUp, type Load, type Target } from './requests.ts';

const { values } = parseArgs({
  options: {
    rate: { type: 'string', multiple: true, default: ['100', '500'] },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '10' },
    against: { type: 'string' },
    'engine-port': { type: 'boolean', default: false },
    'without-litellm': { type: 'boolean', default: false },
    'litellm-workers': { type: 'string', default: '2' },
    awake: { type: 'boolean', default: false },
    short: { type: 'boolean', default: false },
    'max-wait': { type: 'string', default: '60' },
  },
});
const rates = values.short ? [20] : values.rate.map(Number);
const numRounds = values.short ? 1 : Number(values.rounds);
const seconds = values.short ? 1 : Number(values.seconds);
const OURS = 'packages/server/src/testing/instant-main.ts';
/** Until code is compiled and connections are open. */
const WARMUP_REQUESTS = 30_000;
const WARMUP_SECONDS = 30;
/** A target that uses less has finished its requests, answered or not; cores. */
const IDLE_CORES = 0.1;
const MAX_SETTLE_MS = 60_000;

interface Round extends Load {
  readonly cpuMs: number;
  readonly others: number;
}

const started: Started[] = [];
let letSleep = () => {};
try {
  const stub = await start(startModule('stub', 'bench/gateway/stub-server.ts'));
  const ours = await start(startModule('ours', OURS));
  const targets: Target[] = [stub, ours];
  if (values['engine-port']) targets.push(await start(startModule('engine port', OURS, { args: ['--behind-port'] })));
  if (values.against !== undefined)
    targets.push(await start(startModule('other', OURS, { root: resolve(values.against) })));
  if (!values['without-litellm']) targets.push(await start(startLitellm(stub, Number(values['litellm-workers']))));
  for (const target of targets) await warmUp(target, values.short ? 20 : WARMUP_REQUESTS, WARMUP_SECONDS);
  console.log(
    `${machineLine()}; other processes use ${figure(await waitUntilQuiet(Number(values['max-wait']) * 1000))} cores at the start`,
  );
  if (values.awake) letSleep = await keepAwake();
  for (const rate of rates) await measure(targets, rate);
} finally {
  letSleep();
  for (const one of started.reverse()) await one.stop();
}

async function start(starting: Promise<Started>): Promise<Started> {
  const one = await starting;
  started.push(one);
  return one;
}

async function measure(targets: readonly Target[], rate: number): Promise<void> {
  const rounds = new Map<Target, Round[]>(targets.map((target) => [target, []]));
  for (let round = 0; round < numRounds; round++) {
    for (let turn = 0; turn < targets.length; turn++) {
      const target = targets[(turn + round) % targets.length]!;
      const measured = await measureOnce(target, targets, rate, 1 + round);
      rounds.get(target)!.push(measured);
      console.error(
        `${rate}/s, round ${round + 1}/${numRounds}  ${target.name}: whole answer p50 ${figure(percentile(measured.wholeMs, 0.5))} ms`,
      );
    }
  }
  print(rate, rounds);
}

async function measureOnce(target: Target, all: readonly Target[], rate: number, seed: number): Promise<Round> {
  const measured = all.flatMap(({ pids }) => pids);
  const before = sampleCpu(measured);
  const ownBefore = secondsOf(target.pids);
  const result = await load(target, { rate, seconds, seed });
  if (!values.short) await settle(target);
  const cpuMs = (1000 * (secondsOf(target.pids) - ownBefore)) / Math.max(1, result.wholeMs.length);
  return { ...result, cpuMs, others: otherCores(before, sampleCpu(measured)) ?? Number.NaN };
}

/** Requests that were not answered in time may still be computed, and would disturb the next measurement. */
async function settle({ pids }: Target): Promise<void> {
  const deadline = performance.now() + MAX_SETTLE_MS;
  for (let used = Infinity; used > IDLE_CORES && performance.now() < deadline;) {
    const before = secondsOf(pids);
    await delay(500);
    used = (secondsOf(pids) - before) / 0.5;
  }
}

function print(rate: number, rounds: ReadonlyMap<Target, readonly Round[]>): void {
  const [[, direct]] = [...rounds] as [[Target, readonly Round[]]];
  console.log(`\n${rate} streamed requests per second, medians of ${numRounds} rounds of ${seconds} s; ms\n`);
  const heads = [
    'through',
    'first p50',
    'first p99',
    'whole p50',
    'whole p99',
    'added p50',
    'added p99',
    'answered / s',
    'failed',
    'CPU ÷ request',
    'client late p99',
    'others, cores',
  ];
  console.log(`| ${heads.join(' | ')} |\n|${'---|'.repeat(heads.length)}`);
  for (const [target, own] of rounds) {
    const over = (of: (round: Round, base: Round) => number) => median(own.map((round, at) => of(round, direct[at]!)));
    const cells = [
      over(({ firstMs }) => percentile(firstMs, 0.5)),
      over(({ firstMs }) => percentile(firstMs, 0.99)),
      over(({ wholeMs }) => percentile(wholeMs, 0.5)),
      over(({ wholeMs }) => percentile(wholeMs, 0.99)),
      over(({ wholeMs }, base) => percentile(wholeMs, 0.5) - percentile(base.wholeMs, 0.5)),
      over(({ wholeMs }, base) => percentile(wholeMs, 0.99) - percentile(base.wholeMs, 0.5)),
      over(({ perSecond }) => perSecond),
      own.reduce((sum, { numFailed }) => sum + numFailed, 0),
      over(({ cpuMs }) => cpuMs),
      over(({ lateMs }) => percentile(lateMs, 0.99)),
      Math.max(...own.map(({ others }) => others)),
    ];
    console.log(`| ${target.name} | ${cells.map(figure).join(' | ')} |`);
  }
}

function figure(value: number | null): string {
  return value === null || Number.isNaN(value) ? 'n/a' : value >= 100 ? value.toFixed(0) : value.toFixed(2);
}
