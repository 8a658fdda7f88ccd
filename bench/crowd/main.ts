/**
 * A crowd of streams with long prompts, and the memory of every process of the service:
 *
 *   npm run bench -- crowd                                      500 streams with prompts of 50 kB, truncated to their last 1,000 tokens
 *   npm run bench -- crowd --settings capacity-tokens=4096   settings of the service
 *   npm run bench -- crowd --seen 100 --tokens 4             shorter work with the same prompts
 *   npm run bench -- crowd --short                           the smallest run of all parts
 *
 * At the same time one client of another entity requests short replies, one after the other. The crowd comes
 * in waves (`--waves`): memory that grew with each would show.
 */
import { parseArgs } from 'node:util';

import { Trainyard } from '@trainyard/sdk';

import { ownService } from '../../scripts/own-service.ts';
import { machineLine, otherCores, sampleCpu, waitUntilQuiet } from '../machine.ts';
import { markdownTable } from '../markdown-table.ts';
import { percentile } from '../percentile.ts';
import { settingsEnvironment } from '../settings-environment.ts';
import { MemoryWatch } from './memory-watch.ts';
import { longPrompt, WORDS } from './prompts.ts';
import { countEnds, streamOnce, type StreamEnd, type Target } from './streams.ts';

const { values } = parseArgs({
  options: {
    streams: { type: 'string' },
    kilobytes: { type: 'string', default: '50' },
    seen: { type: 'string' },
    tokens: { type: 'string', default: '16' },
    waves: { type: 'string' },
    settings: { type: 'string', multiple: true, default: [] },
    short: { type: 'boolean', default: false },
    'max-wait': { type: 'string', default: '60' },
  },
});
const numStreams = Number(values.streams ?? (values.short ? 20 : 500));
const numWaves = Number(values.waves ?? (values.short ? 1 : 3));
const promptBytes = Number(values.kilobytes) * 1000;
const maxTokens = Number(values.tokens);
const seenTokens = Number(values.seen ?? (values.short ? 50 : 1000));

const quiet = await waitUntilQuiet(Number(values['max-wait']) * 1000);
console.log(`${machineLine()}; other processes use ${quiet?.toFixed(2) ?? 'n/a'} cores at the start`);
const service = await ownService({ environment: settingsEnvironment(values.settings) });
try {
  const bystander = await keyOfAnother();
  const before = sampleCpu([service.pid]);
  await timesOf(bystander, 3);
  const alone = await timesOf(bystander, values.short ? 3 : 10);
  for (let wave = 0; wave < numWaves; wave++) {
    const watch = new MemoryWatch(service.pid);
    const startedAt = performance.now();
    let isOver = false;
    const bystanderTimes = timesUntil(bystander, () => isOver);
    const ends = await Promise.all(
      Array.from({ length: numStreams }, (_, index) => streamOne(wave * numStreams + index)),
    );
    isOver = true;
    const times = await bystanderTimes;
    print(wave, ends, { seconds: (performance.now() - startedAt) / 1000, times, alone, watch });
  }
  console.log(
    `\nOther processes computed on ${otherCores(before, sampleCpu([service.pid]))?.toFixed(2) ?? 'n/a'} cores meanwhile.`,
  );
} finally {
  await service.close();
}

function streamOne(index: number): Promise<StreamEnd> {
  return streamOnce(service, {
    messages: [{ role: 'user', content: longPrompt(index, promptBytes, WORDS) }],
    seed: index,
    max_tokens: maxTokens,
    truncate_prompt_tokens: seenTokens,
    ignore_eos: true,
    return_token_ids: true,
  });
}

async function keyOfAnother(): Promise<Target> {
  const { secret } = await new Trainyard({ baseUrl: service.url, apiKey: service.apiKey }).keys.create({
    name: 'bystander',
    entity: 'bystander',
    scopes: ['inference'],
  });
  return { url: service.url, apiKey: secret! };
}

async function timesUntil(target: Target, isOver: () => boolean): Promise<number[]> {
  const times: number[] = [];
  while (!isOver()) times.push(...(await timesOf(target, 1)));
  return times;
}

async function timesOf(target: Target, count: number): Promise<number[]> {
  const times: number[] = [];
  for (let turn = 0; turn < count; turn++) {
    const { tookMs, end } = await streamOnce(target, {
      messages: [{ role: 'user', content: `Say something about ${turn}.` }],
      max_tokens: 8,
    });
    if (end !== 'done') throw new Error('the client next to the crowd was not served');
    times.push(tookMs);
  }
  return times;
}

function print(
  wave: number,
  ends: readonly StreamEnd[],
  { seconds, times, alone, watch }: { seconds: number; times: number[]; alone: number[]; watch: MemoryWatch },
): void {
  const counts = Object.entries(countEnds(ends)).map(([name, count]) => `${count} × ${name}`);
  const p = (of: number[], share: number): string => percentile(of, share).toFixed(0);
  console.log(
    `\nWave ${wave + 1}: ${numStreams} streams of ${promptBytes / 1000} kB, ${seconds.toFixed(0)} s; ${counts.join(', ')}.`,
  );
  console.log(
    `Another client at the same time: ${times.length} replies of 8 tokens, p50 ${p(times, 0.5)} ms, p95 ${p(times, 0.95)} (alone ${p(alone, 0.5)} and ${p(alone, 0.95)}).\n`,
  );
  const megabytes = (bytes: number): string => (bytes / 1e6).toFixed(0);
  const rows = watch.stop().map(({ name, first, peak, last }) => [name, ...[first, peak, last].map(megabytes)]);
  console.log(markdownTable(['memory (PSS), MB', 'before', 'at most', 'after'], rows));
}
