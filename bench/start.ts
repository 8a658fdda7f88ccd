/**
 * Start of the service with the default model:   npm run bench -- start [--rounds 5] [--against CHECKOUT] [--idle 10]
 *
 * Runs `npm start` on a data folder without models, several times in turns with another checkout: seconds until it
 * prints its address and until the first token of a chat, processor seconds until then, and memory of its processes
 * after an idle pause. The first round does not count: it compiles the sources, and the files come from the disk.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { defaultModelPath } from '../scripts/own-service.ts';
import { hostOf } from './crowd/memory-watch.ts';
import { machineLine, otherCores, processesBelow, sampleCpu, secondsOf, waitUntilQuiet } from './machine.ts';
import { markdownTable } from './markdown-table.ts';
import { proportionalBytes } from './serving/local-process.ts';
import { openClient } from './serving/server-under-test.ts';
import { streamAnswer } from './serving/streamed-answer.ts';
import { spread } from './three-digits.ts';

const API_KEY = 'of-the-bench';
const MODEL = 'default';
const MAX_WAIT_MS = 60_000;

interface Start {
  readonly readySeconds: number;
  readonly tokenSeconds: number;
  readonly processorSeconds: number;
  /** Idle memory by name of the process: private memory plus a share of shared memory (PSS), bytes. */
  readonly idle: ReadonlyMap<string, number>;
}

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    against: { type: 'string' },
    idle: { type: 'string', default: '10' },
  },
});
const checkouts = [
  resolve(import.meta.dirname, '..'),
  ...(values.against === undefined ? [] : [resolve(values.against)]),
];
console.log(
  `${machineLine()}; others use ${(await waitUntilQuiet(MAX_WAIT_MS))?.toFixed(2) ?? 'unknown'} cores at the start`,
);
const folders = new Map(checkouts.map((checkout) => [checkout, mkdtempSync(join(tmpdir(), 'trainyard-start-'))]));
process.once('exit', () => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));
const before = sampleCpu();
const starts = new Map<string, Start[]>(checkouts.map((checkout) => [checkout, []]));
for (let round = 0; round <= Number(values.rounds); round++) {
  for (const checkout of round % 2 === 0 ? checkouts : checkouts.toReversed()) {
    const start = await measured(checkout);
    if (round > 0) starts.get(checkout)!.push(start);
  }
}
const rows = [...starts].map(([checkout, all]) => {
  const seconds = (of: (start: Start) => number): string => spread(all.map(of));
  const sum = ({ idle }: Start): number => [...idle.values()].reduce((total, bytes) => total + bytes, 0);
  const typical = all.toSorted((a, b) => sum(a) - sum(b))[Math.floor(all.length / 2)]!;
  const parts = [...typical.idle].map(([name, bytes]) => `${name} ${Math.round(bytes / 1e6)}`).join(', ');
  return [
    checkout,
    seconds((start) => start.readySeconds),
    seconds((start) => start.tokenSeconds),
    seconds((start) => start.processorSeconds),
    `${Math.round(sum(typical) / 1e6)} (${parts})`,
  ];
});
console.log(markdownTable(['checkout', 'address, s', 'first token, s', 'processor, s', 'idle, MB'], rows));
console.log(
  `medians (smallest–largest) of ${values.rounds} starts; others computed on ${otherCores(before, sampleCpu())?.toFixed(2) ?? 'unknown'} cores meanwhile`,
);

async function measured(checkout: string): Promise<Start> {
  const dataDirectory = folders.get(checkout)!;
  const startedAt = performance.now();
  const seconds = (): number => (performance.now() - startedAt) / 1000;
  const service = spawn('npm', ['start', '--silent'], {
    cwd: checkout,
    env: {
      ...process.env,
      TRAINYARD_DATA_DIR: dataDirectory,
      TRAINYARD_MODEL: defaultModelPath(),
      TRAINYARD_MODEL_ID: MODEL,
      TRAINYARD_API_KEY: API_KEY,
      TRAINYARD_PORT: '0',
      TRAINYARD_DRAIN_GRACE_MS: '0',
    },
    stdio: ['ignore', 'pipe', 'ignore'],
    // A process group, since npm's shell does not pass signals on.
    detached: true,
  });
  const ended = once(service, 'close');
  try {
    const url = await addressIn(service.stdout);
    const readySeconds = seconds();
    const work = {
      model: MODEL,
      messages: [{ role: 'user', content: 'Hello' } as const],
      numTokens: 1,
      logprobs: true,
    };
    await streamAnswer({ client: openClient(url, API_KEY) }, work);
    const tokenSeconds = seconds();
    const processorSeconds = secondsOf([service.pid!]);
    await delay(1000 * Number(values.idle));
    return { readySeconds, tokenSeconds, processorSeconds, idle: memoryBelow(service.pid!) };
  } finally {
    process.kill(-service.pid!, 'SIGTERM');
    await ended;
  }
}

async function addressIn(output: Readable): Promise<string> {
  let text = '';
  // Its further output is read and dropped: a closed pipe would end the service.
  for await (const part of output.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    text += String(part);
    const url = /^URL\s+(\S+)$/m.exec(text)?.[1];
    if (url === undefined) continue;
    output.resume();
    return url;
  }
  throw new Error(`the service ended before it printed its address:\n${text}`);
}

function memoryBelow(root: number): Map<string, number> {
  const found = new Map<string, number>();
  for (const pid of processesBelow([root])) {
    const isService = readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('/main.ts\0');
    const name = hostOf(pid) ?? (isService ? 'service' : 'npm');
    found.set(name, (found.get(name) ?? 0) + (proportionalBytes([pid]) ?? 0));
  }
  return found;
}
