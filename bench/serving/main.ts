/**
 * Comparison of servers with OpenAI's chat completions on workloads of reinforcement learning:
 *
 *   npm run bench -- serve                                               only a new service
 *   npm run bench -- serve --against 'vllm,url=http://127.0.0.1:8000/v1,adapters=a+b'
 *   npm run bench -- serve --only rollouts --only plain --rounds 5    some workloads
 *   npm run bench -- serve --short                                    the smallest run of all parts; its figures mean nothing
 *
 * Rounds are interleaved: each workload runs on one server after the other before the next one starts, and
 * the order rotates between rounds. Between two servers it waits until the last one is quiet: vLLM's threads still
 * spin for a second after an answer. The result is the ratio within a round. `--settings precision=fast`
 * (repeatable) are settings of the service. bench/README.md has recipes for the others.
 */
import { parseArgs } from 'node:util';

import { Trainyard } from '@trainyard/sdk';

import { ownService } from '../../scripts/own-service.ts';
import { publishAdapter } from '../inference.ts';
import { machineLine, waitUntilQuiet } from '../machine.ts';
import { settingsEnvironment } from '../settings-environment.ts';
import { measure } from './measure.ts';
import { type Outcome, renderReport } from './report.ts';
import { localPortOf, openClient, parseServer, type ServerUnderTest } from './server-under-test.ts';
import { FULL, SHORT, type Workload, workloadsOf } from './workloads.ts';

const { values } = parseArgs({
  options: {
    against: { type: 'string', multiple: true, default: [] },
    settings: { type: 'string', multiple: true, default: [] },
    only: { type: 'string', multiple: true, default: [] },
    rounds: { type: 'string', default: '3' },
    short: { type: 'boolean', default: false },
    'max-wait': { type: 'string', default: '60' },
  },
});
const maxWaitMs = Number(values['max-wait']) * 1000;
const numRounds = values.short ? 1 : Number(values.rounds);
const all = workloadsOf(values.short ? SHORT : FULL);
const unknown = values.only.find((name) => !all.some((workload) => workload.name === name));
if (unknown !== undefined) {
  console.error(`unknown workload "${unknown}"; the workloads are ${all.map(({ name }) => `"${name}"`).join(', ')}`);
  process.exit(2);
}
const workloads = values.only.length === 0 ? all : all.filter(({ name }) => values.only.includes(name));

console.log(
  `${machineLine()}; other processes use ${(await waitUntilQuiet(maxWaitMs))?.toFixed(2) ?? 'n/a'} cores at the start`,
);
const others = await Promise.all(values.against.map(parseServer)).catch((error: Error) => {
  console.error(error.message);
  process.exit(2);
});
const service = await ownService({ environment: settingsEnvironment(values.settings) });
try {
  const servers = [await ours(), ...others];
  const outcomes = new Map(workloads.map(({ name }) => [name, new Map<string, Outcome>()]));
  for (let round = 0; round < numRounds; round++) {
    for (const workload of workloads) {
      const able = servers.filter(({ adapters }) => adapters.length >= workload.numAdapters);
      for (let turn = 0; turn < able.length; turn++) {
        const server = able[(turn + round) % able.length]!;
        const known = outcomes.get(workload.name)!;
        const before = known.get(server.name) ?? { measurements: [], failure: null };
        // A server that does not support it is skipped.
        if (before.failure !== null) continue;
        known.set(server.name, await attempt(server, workload, round, before));
      }
    }
  }
  console.log(`\n${renderReport(outcomes)}\n`);
  for (const { name, how } of workloads) console.log(`- ${name}: ${how}`);
} finally {
  await service.close();
}

async function attempt(server: ServerUnderTest, workload: Workload, round: number, before: Outcome): Promise<Outcome> {
  const label = `round ${round + 1}/${numRounds}  ${workload.name}, ${server.name}`;
  try {
    // A seed without prompts in any cache from another workload, round or run of this bench; a thousand times
    // the seed is below 2³².
    const seed = (process.pid % 1_000) * 1_000 + round * all.length + all.indexOf(workload);
    await waitUntilQuiet(maxWaitMs);
    const measurement = await measure(server, workload, seed);
    console.error(`${label}: ${measurement.tokensPerSecond.toFixed(1)} tok/s`);
    return { ...before, measurements: [...before.measurements, measurement] };
  } catch (error) {
    const failure = error instanceof Error ? error.message : String(error);
    console.error(`${label}: ${failure}`);
    return { ...before, failure };
  }
}

/** The bench's own service, with as many adapters as the workloads need. */
async function ours(): Promise<ServerUnderTest> {
  const trainyard = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
  const model = (await trainyard.servedModels.list()).data.find(({ parent }) => parent === null)!.id;
  const adapters: string[] = [];
  const numAdapters = Math.max(...workloads.map((workload) => workload.numAdapters));
  while (adapters.length < numAdapters) adapters.push(await publishAdapter(trainyard, model));
  const client = openClient(service.url, service.apiKey);
  return { name: 'trainyard', client, model, adapters, localPort: localPortOf(service.url) };
}
