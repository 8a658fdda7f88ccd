/**
 * Effect of hostile requests on other clients:   npm run bench -- hostile [-- --rounds 3]
 *
 * Twenty clients request short replies in a loop. In one round the hostile corpus of the tests is sent at the
 * same time, one request after the other; the next round has the same length without it, and so on in turns,
 * so that a slow minute affects both.
 */
import { parseArgs } from 'node:util';

import { ownService, type OwnService } from '../scripts/own-service.ts';
import { HOSTILE_REQUESTS } from '../tests/support/hostile-requests.ts';
import { machineLine, otherCores, sampleCpu, waitUntilQuiet } from './machine.ts';
import { percentile } from './percentile.ts';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '3' }, 'max-wait': { type: 'string', default: '60' } },
});
const NUM_ROUNDS = Number(values.rounds);
const NUM_CLIENTS = 20;

interface Ended {
  readonly status: number;
  readonly ms: number;
}
interface Round {
  readonly normal: readonly Ended[];
  readonly others: number | null;
}

const quiet = await waitUntilQuiet(Number(values['max-wait']) * 1000);
console.log(`${machineLine()}; other processes use ${figure(quiet)} cores at the start`);
const service = await ownService();
const calm: Round[] = [];
const attacked: Round[] = [];
const hostile = new Map<string, Ended[]>();
try {
  await Promise.all(Array.from({ length: NUM_CLIENTS }, (_, index) => askNormally(service, index)));
  for (let round = 0; round < NUM_ROUNDS; round++) {
    const startedAt = performance.now();
    attacked.push(await measureRound(sendCorpus));
    const tookMs = performance.now() - startedAt;
    calm.push(await measureRound(() => new Promise((resolve) => setTimeout(resolve, tookMs))));
    process.stderr.write(`round ${round + 1}/${NUM_ROUNDS} done\n`);
  }
} finally {
  await service.close();
}
printHostile();
printNormal();

/** Normal requests in a loop until `load` ends. */
async function measureRound(load: () => Promise<unknown>): Promise<Round> {
  const before = sampleCpu();
  const normal: Ended[] = [];
  let isOver = false;
  const clients = Array.from({ length: NUM_CLIENTS }, async (_, index) => {
    for (let turn = 0; !isOver; turn++) normal.push(await askNormally(service, turn * NUM_CLIENTS + index));
  });
  await load();
  isOver = true;
  await Promise.all(clients);
  return { normal, others: otherCores(before, sampleCpu()) };
}

async function sendCorpus(): Promise<void> {
  for (const [name, { body }] of Object.entries(HOSTILE_REQUESTS)) {
    const ended = await send(service, body());
    hostile.set(name, [...(hostile.get(name) ?? []), ended]);
  }
}

async function askNormally(to: OwnService, seed: number): Promise<Ended> {
  const messages = [{ role: 'user', content: `Say something about the number ${seed}.` }];
  return send(to, JSON.stringify({ messages, seed, max_tokens: 8, ignore_eos: true }));
}

async function send(to: OwnService, body: string): Promise<Ended> {
  const startedAt = performance.now();
  const response = await fetch(`${to.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${to.apiKey}`, 'content-type': 'application/json' },
    body,
  });
  await response.arrayBuffer();
  return { status: response.status, ms: performance.now() - startedAt };
}

function printHostile(): void {
  console.log(`\n${'hostile request'.padEnd(46)}status   median ms  worst ms`);
  for (const [name, ended] of hostile) {
    const statuses = [...new Set(ended.map(({ status }) => status))].join(',');
    const times = ended.map(({ ms }) => ms);
    console.log(
      `${name.padEnd(46)}${statuses.padEnd(9)}${percentile(times, 0.5).toFixed(0).padStart(9)}${Math.max(...times)
        .toFixed(0)
        .padStart(10)}`,
    );
  }
}

function printNormal(): void {
  console.log(`\n${NUM_CLIENTS} normal clients, 8 tokens a reply, F16, over HTTP; ${NUM_ROUNDS} rounds each`);
  for (const [name, rounds] of [['without', calm] as const, ['with the corpus', attacked] as const]) {
    const times = rounds.flatMap(({ normal }) => normal.map(({ ms }) => ms));
    const failed = rounds.flatMap(({ normal }) => normal.filter(({ status }) => status !== 200));
    const p99s = rounds.map(({ normal }) => p99(normal).toFixed(0)).join(', ');
    const others = rounds.map((round) => figure(round.others)).join(', ');
    console.log(
      `${name.padEnd(18)}${times.length} requests, ${failed.length} failed; p50 ${percentile(times, 0.5).toFixed(0)} ms; p99 of each round ${p99s} ms; others computed on ${others} cores`,
    );
  }
  const ratios = attacked.map(({ normal }, round) => p99(normal) / p99(calm[round]!.normal));
  console.log(
    `p99 with the corpus ÷ without: ${percentile(ratios, 0.5).toFixed(2)} (rounds: ${ratios.map((ratio) => ratio.toFixed(2)).join(', ')})`,
  );
}

function p99(ended: readonly Ended[]): number {
  return percentile(
    ended.map(({ ms }) => ms),
    0.99,
  );
}

function figure(cores: number | null): string {
  return cores === null ? 'n/a' : cores.toFixed(2);
}
