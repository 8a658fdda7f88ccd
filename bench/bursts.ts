/**
 * Effect of disconnecting clients on the remaining requests:   npm run bench -- bursts   (about 3 minutes; `--
 * --streams 5000`)
 *
 * First only the engine with a scripted model, for 100 to 10,000 requests; then streams over HTTP that all
 * disconnect from a new service, and the time of the next answer. The load of other processes is printed with
 * the figures.
 */
import { readdirSync, readFileSync } from 'node:fs';
import http from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { DEFAULT_GENERATE, type GenerateRequest } from '@trainyard/generation';
import { openScriptedEngine } from '@trainyard/generation/testing';

import { ownService, type OwnService } from '../scripts/own-service.ts';
import { machineLine, otherCores, sampleCpu, waitUntilQuiet } from './machine.ts';

/** Default of the service. */
const MAX_REQUESTS = 2_048;
const MAX_BURST_MS = 60_000;

const { values } = parseArgs({
  options: {
    streams: { type: 'string', default: '5000' },
    'stay-ms': { type: 'string', default: '3000' },
    'max-wait': { type: 'string', default: '60' },
  },
});

console.log(
  `${machineLine()}; other processes use ${figure(await waitUntilQuiet(Number(values['max-wait']) * 1000))} cores at the start`,
);
await printCurve();
const before = sampleCpu();
await printStreams(Number(values.streams), Number(values['stay-ms']));
console.log(`other processes computed on ${figure(otherCores(before, sampleCpu()))} cores meanwhile`);

async function printCurve(): Promise<void> {
  console.log('\nengine alone, one token per step, ms:');
  console.log('requests   submit  pause all  resume all  20 steps  drop all  next answer');
  for (const count of [100, 1_000, 10_000]) {
    const opened = await openScriptedEngine({ limits: { maxRequests: 20_000 }, runsRequestTemplates: false });
    const { engine } = opened;
    const ids = Array.from({ length: count }, (_, index) => `request ${index}`);
    const timed = (task: () => void): string => {
      const startedAt = performance.now();
      task();
      return (performance.now() - startedAt).toFixed(1);
    };
    const ignore = (): void => {};
    const submit = timed(() => {
      for (const [index, id] of ids.entries()) opened.submit(requestOf(id, `crowd ${index % 10}`), ignore);
    });
    while (engine.hasPromptsToMake) engine.prepareSome();
    const pause = timed(() => {
      for (const id of ids) engine.setPaused(id, true);
    });
    const resume = timed(() => {
      for (const id of ids) engine.setPaused(id, false);
    });
    const steps = timed(() => {
      for (let step = 0; step < 20; step++) void engine.step();
    });
    const drop = timed(() => {
      for (const id of ids) engine.abort(id);
      void engine.step();
    });
    const next = timed(() => {
      let isOver = false;
      opened.submit(
        requestOf('next', 'next'),
        ({ kind }) => (isOver = kind === 'delta' || kind === 'finished' || kind === 'failed'),
      );
      while (!isOver) void engine.step();
    });
    console.log(
      `${String(count).padStart(8)}${[submit, pause, resume, steps, drop, next].map((ms, i) => ms.padStart([9, 11, 12, 10, 10, 13][i]!)).join('')}`,
    );
    opened.close();
  }
}

function requestOf(requestId: string, tenant: string): GenerateRequest {
  return {
    ...DEFAULT_GENERATE,
    requestId,
    tenant,
    prompt: { kind: 'text', text: requestId, addSpecialTokens: false },
    n: 8,
    maxTokens: 100,
    ignoreEos: true,
  };
}

async function printStreams(numStreams: number, stayMs: number): Promise<void> {
  const service = await ownService();
  try {
    await post(service, { max_tokens: 1 }).answered;
    const startedAt = performance.now();
    const counts = new Map<string, number>();
    const streams = Array.from({ length: numStreams }, () => {
      const stream = post(service, { stream: true, n: 8, max_tokens: 2_000 });
      void stream.answered.then((how) => counts.set(how, (counts.get(how) ?? 0) + 1));
      return stream;
    });
    // Requests above the limit are refused at once; the others get some time to be served.
    const isRefused = (): boolean => (counts.get('429') ?? 0) >= numStreams - MAX_REQUESTS;
    while (!isRefused() && performance.now() - startedAt < MAX_BURST_MS) await delay(50);
    const refusedMs = performance.now() - startedAt;
    await delay(stayMs);
    console.log(
      `\n${numStreams} streams of 8 choices over HTTP; those above ${MAX_REQUESTS} were refused after ${refusedMs.toFixed(0)} ms; so far ${JSON.stringify(Object.fromEntries(counts))}`,
    );
    for (const { leave } of streams) leave();
    await printNextAnswer(service, 'all left');
    const busy = Array.from({ length: 200 }, () => post(service, { stream: true, n: 8, max_tokens: 2_000 }));
    await busy[0]!.answered;
    process.kill(engineHostOf(service), 'SIGKILL');
    await printNextAnswer(service, 'the engine was killed during 200 streams');
    for (const { leave } of busy) leave();
    const health = await fetch(`${service.url}/health`);
    console.log(`health: ${health.status} ${await health.text()}`);
  } finally {
    await service.close();
  }
}

async function printNextAnswer(service: OwnService, what: string): Promise<void> {
  const startedAt = performance.now();
  for (let tries = 1; ; tries++) {
    const how = await post(service, { max_tokens: 1 }).answered;
    if (how !== '200') {
      await delay(100);
      continue;
    }
    console.log(`${what}; the next answer came after ${(performance.now() - startedAt).toFixed(0)} ms, ${tries} tries`);
    return;
  }
}

/** Finds it by its command line among the service's children. */
function engineHostOf({ pid }: OwnService): number {
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const parent = Number(/^PPid:\s*(\d+)$/m.exec(readFileSync(`/proc/${name}/status`, 'utf8'))?.[1]);
      if (parent === pid && readFileSync(`/proc/${name}/cmdline`, 'utf8').includes('engine-host')) return Number(name);
    } catch {
      // It ended between the listing and the read.
    }
  }
  throw new Error('the service has no engine host');
}

/** `answered`: the status, or the reason for its absence. */
function post(service: OwnService, fields: object): { answered: Promise<string>; leave: () => void } {
  const { promise, resolve } = Promise.withResolvers<string>();
  const body = JSON.stringify({
    messages: [{ role: 'user', content: 'Tell me about the sea.' }],
    ignore_eos: true,
    ...fields,
  });
  const request = http.request(
    `${service.url}/chat/completions`,
    {
      method: 'POST',
      agent: false,
      headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    },
    (response) => {
      response.resume();
      resolve(String(response.statusCode));
    },
  );
  request.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
  request.end(body);
  return { answered: promise, leave: () => request.destroy() };
}

function figure(cores: number | null): string {
  return cores === null ? 'n/a' : cores.toFixed(2);
}
