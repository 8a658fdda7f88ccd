/**
 * Comparison of servers with OpenAI's chat completions on workloads of reinforcement learning:
 *
 *   npm run bench -- serve                                            only a new service
 *   npm run bench -- serve --peer exact --peer bf16 --peer vllm --peer llama-server
 *   npm run bench -- serve --peer 'llama-server,file=q8_0' --peer 'vllm,--max-num-batched-tokens=8192'
 *   npm run bench -- serve --against 'other,url=http://127.0.0.1:8000/v1,adapters=a+b'
 *   npm run bench -- serve --only rollouts --only plain --rounds 5    some workloads; --all: every one
 *   npm run bench -- serve --short                                    the smallest run of all parts; its figures mean nothing
 *
 * `--peer` installs and starts a server with good settings and prints them; `--against` uses a running one. Workloads
 * without adapters come first; then every peer starts again with adapters, because vLLM does not compile its model with
 * them. Rounds are interleaved: each workload runs on one server after the other before the next one starts, and the
 * order rotates between rounds. Between two servers it waits until all of them are idle: the threads of some spin after
 * an answer. The results are ratios within a round. `--settings kv-cache-mb=500` (repeatable) are settings of our own.
 */
import { parseArgs } from 'node:util';

import { machineLine, waitUntilIdle, waitUntilQuiet } from '../machine.ts';
import { measure, rootsOf } from './measure.ts';
import { parsePeer } from './peers/parse-peer.ts';
import type { Peer, StartedPeer } from './peers/peer.ts';
import { type Outcome, renderReport } from './report.ts';
import { parseServer, type ServerUnderTest } from './server-under-test.ts';
import { CORE, FULL, SHORT, type Workload, workloadsOf } from './workloads.ts';

/** Longer than any server spins after its last answer. */
const IDLE_WITHIN_MS = 30_000;

const { values } = parseArgs({
  options: {
    peer: { type: 'string', multiple: true, default: [] },
    against: { type: 'string', multiple: true, default: [] },
    settings: { type: 'string', multiple: true, default: [] },
    only: { type: 'string', multiple: true, default: [] },
    all: { type: 'boolean', default: false },
    rounds: { type: 'string', default: '3' },
    short: { type: 'boolean', default: false },
    'max-wait': { type: 'string', default: '60' },
  },
});
const maxWaitMs = Number(values['max-wait']) * 1000;
const numRounds = values.short ? 1 : Number(values.rounds);
const all = workloadsOf(values.short ? SHORT : FULL);
const unknown = values.only.find((name) => !all.some((workload) => workload.name === name));
if (unknown !== undefined)
  refuse(`unknown workload "${unknown}"; the workloads are ${all.map(({ name }) => `"${name}"`).join(', ')}`);
const names = values.only.length > 0 ? values.only : values.all ? all.map(({ name }) => name) : CORE;
const workloads = all.filter(({ name }) => names.includes(name));

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)
  process.once(signal, () => process.exit(code));
console.log(
  `${machineLine()}; other processes use ${(await waitUntilQuiet(maxWaitMs))?.toFixed(2) ?? 'n/a'} cores at the start`,
);
const peers = parsePeers();
const strangers = await Promise.all(values.against.map(parseServer)).catch((error: Error) => refuse(error.message));
for (const peer of peers)
  await peer.install().catch((error: Error) => refuse(`${peer.name} cannot be installed: ${error.message}`));

const outcomes = new Map(workloads.map(({ name }) => [name, new Map<string, Outcome>()]));
// With adapters vLLM computes without compiling, so its servers with and without them differ.
await runPhase(workloads.filter(({ numAdapters }) => numAdapters === 0));
await runPhase(workloads.filter(({ numAdapters }) => numAdapters > 0));
const report = workloads.map((workload) => ({ workload, byServer: outcomes.get(workload.name)! }));
console.log(
  `\n${renderReport(
    report,
    peers.filter(({ isOurs }) => isOurs).map(({ name }) => name),
  )}\n`,
);
for (const { name, how } of workloads) console.log(`- ${name}: ${how}`);

/** Runs all rounds of some workloads on newly started peers. */
async function runPhase(chosen: readonly Workload[]): Promise<void> {
  if (chosen.length === 0) return;
  const numAdapters = Math.max(...chosen.map((workload) => workload.numAdapters));
  const started: StartedPeer[] = [];
  try {
    for (const peer of peers) {
      const one = await peer.start(numAdapters).catch((error: Error) => error);
      if (one instanceof Error) {
        // The rounds of the other servers are worth keeping.
        console.error(`${peer.name} did not start: ${one.message}`);
        const failed = { measurements: [], failure: `did not start: ${one.message}` };
        for (const { name } of chosen) outcomes.get(name)!.set(peer.name, failed);
        continue;
      }
      started.push(one);
      console.log(`${one.name}${numAdapters === 0 ? '' : ', with adapters'}: ${one.settings}`);
    }
    const servers = [...started, ...strangers];
    if (!values.short) for (const server of servers) await warmUp(server, chosen);
    for (let round = 0; round < numRounds; round++) {
      for (const workload of chosen) {
        const able = servers.filter(({ adapters }) => adapters.length >= workload.numAdapters);
        for (let turn = 0; turn < able.length; turn++)
          await attempt(able[(turn + round) % able.length]!, workload, round, servers);
      }
    }
  } finally {
    for (const one of started) await one.stop();
  }
}

/** Adds a round to the outcome of a server. One that has failed is skipped: it does not support the workload. */
async function attempt(
  server: ServerUnderTest,
  workload: Workload,
  round: number,
  servers: readonly ServerUnderTest[],
): Promise<void> {
  const known = outcomes.get(workload.name)!;
  const before = known.get(server.name) ?? { measurements: [], failure: null };
  if (before.failure !== null) return;
  const label = `round ${round + 1}/${numRounds}  ${workload.name}, ${server.name}`;
  try {
    // A seed without prompts in any cache from another workload, round or run of this bench.
    const seed = (process.pid % 1_000) * 1_000 + round * all.length + all.indexOf(workload);
    const busy = await waitUntilIdle(rootsOf(servers), IDLE_WITHIN_MS);
    if (busy > 0.25) console.error(`the servers still use ${busy.toFixed(2)} cores`);
    await waitUntilQuiet(maxWaitMs);
    const idle = rootsOf(servers.filter((other) => other !== server));
    const measurement = await measure(server, workload, { seed, idle });
    console.error(`${label}: ${measurement.tokensPerSecond.toFixed(1)} tok/s`);
    known.set(server.name, { ...before, measurements: [...before.measurements, measurement] });
  } catch (error) {
    const failure = error instanceof Error ? error.message : String(error);
    console.error(`${label}: ${failure}`);
    known.set(server.name, { ...before, failure });
  }
}

/** The smallest run of each kind of work: some servers compile at the first request of a kind. */
async function warmUp(server: ServerUnderTest, chosen: readonly Workload[]): Promise<void> {
  const small = workloadsOf(SHORT).filter(
    ({ name, numAdapters }) =>
      numAdapters <= server.adapters.length && (CORE.includes(name) || chosen.some((one) => one.name === name)),
  );
  for (const [index, workload] of small.entries()) {
    try {
      await workload.run(server, 900_000_000 + index);
    } catch (error) {
      console.error(`warming up, ${workload.name}, ${server.name}: ${(error as Error).message}`);
    }
  }
}

/** Peers in the order of the flags; the service in its default precision is the first if none is ours. */
function parsePeers(): readonly Peer[] {
  try {
    const given = values.peer.map((text) => parsePeer(text, values.settings, log));
    const twice = given.find(({ name }, index) => given.findIndex((other) => other.name === name) < index);
    if (twice !== undefined) throw new Error(`--peer ${twice.name} is given twice`);
    return given.some(({ isOurs }) => isOurs) ? given : [parsePeer('exact', values.settings, log), ...given];
  } catch (error) {
    return refuse((error as Error).message);
  }
}

function log(line: string): void {
  console.error(line);
}

function refuse(message: string): never {
  console.error(message);
  process.exit(2);
}
