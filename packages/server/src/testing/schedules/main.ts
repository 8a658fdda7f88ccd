/**
 * Plays random schedules of a service of several processes, each with the faults of its seed, and checks the
 * result: nothing lost, nothing done twice, and the weights of an undisturbed service. See `npm run lab -- prove`.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { openStore } from '@trainyard/store';
import { createSchema, PostgresCluster, SchemaConnection } from '@trainyard/store/testing';

import { LEDGER } from './ledger.ts';
import { processorSeconds } from './processor-time.ts';
import { playSchedule } from './schedule.ts';
import { learnUndisturbed } from './undisturbed.ts';

const PROGRAMS_VARIABLE = 'TRAINYARD_TEST_POSTGRES';
/** A file system in memory: another test covers durability. */
const MEMORY = '/dev/shm';

const { values } = parseArgs({
  options: {
    schedules: { type: 'string', default: '1000' },
    first: { type: 'string', default: '1' },
    seed: { type: 'string' },
    jobs: { type: 'string', default: '1' },
    verbose: { type: 'boolean', default: false },
    'stop-at-first': { type: 'boolean', default: false },
    server: { type: 'string' },
  },
});

interface Report {
  numSchedules: number;
  numJobs: number;
  numGivenUp: number;
  virtualMs: number;
  faults: Record<string, number>;
  broken: Record<string, string[]>;
}

type FromPlayer = { readonly report: Report } | { readonly asks: 'seed' };
interface ToPlayer {
  readonly seed: number | null;
}

// Ends with the process that started it, which owns the server.
if (values.server !== undefined) process.once('disconnect', () => process.exit(1));
const report = values.server === undefined ? await playOnOwnServer() : await playOn(values.server, givenSeeds());
// Killed processes have not cleaned up: their resources keep this one alive.
if (values.server === undefined) {
  print(report);
  process.exit();
} else process.send?.({ report } satisfies FromPlayer, undefined, undefined, () => process.exit());

async function playOnOwnServer(): Promise<Report> {
  const programs = process.env[PROGRAMS_VARIABLE];
  if (programs === undefined) throw new Error(`${PROGRAMS_VARIABLE} does not name the folder of initdb and postgres`);
  const cluster = await PostgresCluster.start(programs, MEMORY);
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      // Clients of the stopped server would end this process before the server's folder is removed.
      process.on('uncaughtException', () => undefined);
      void cluster.stop().finally(() => process.exit(128 + constants.signals[signal]));
    });
  try {
    const numJobs = Number(values.jobs);
    if (numJobs === 1) return await playOn(cluster.url, ownSeeds());
    const seeds = ownSeeds().values();
    const reports = await Promise.all(Array.from({ length: numJobs }, () => playInProcess(cluster.url, seeds)));
    return reports.reduce(sumOf);
  } finally {
    await cluster.stop();
  }
}

/** Plays in a separate process, which has one virtual time and takes another seed after each schedule. */
async function playInProcess(server: string, seeds: Iterator<number>): Promise<Report> {
  const child = fork(fileURLToPath(import.meta.url), [...process.argv.slice(2), '--server', server], {
    execArgv: ['--conditions=@trainyard/source'],
  });
  const result = Promise.withResolvers<Report>();
  child.on('message', (message: FromPlayer) => {
    if ('report' in message) result.resolve(message.report);
    else child.send({ seed: seeds.next().value ?? null } satisfies ToPlayer);
  });
  child.once('exit', (code) => result.reject(new Error(`schedules ended with ${code}`)));
  return await result.promise;
}

/** Seeds from the parent process. */
async function* givenSeeds(): AsyncGenerator<number> {
  for (;;) {
    const answered = once(process, 'message');
    process.send?.({ asks: 'seed' } satisfies FromPlayer);
    const [{ seed }] = (await answered) as [ToPlayer];
    if (seed === null) return;
    yield seed;
  }
}

async function playOn(server: string, seeds: Iterable<number> | AsyncIterable<number>): Promise<Report> {
  const directory = mkdtempSync(join(MEMORY, 'ty-'));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  const sum: Report = { numSchedules: 0, numJobs: 0, numGivenUp: 0, virtualMs: 0, faults: {}, broken: {} };
  let connection: SchemaConnection | null = null;
  try {
    const url = await createSchema(server);
    await (await openStore({ kind: 'postgres', url })).close();
    connection = await SchemaConnection.open(url);
    await connection.query(LEDGER);
    const oracle = await learnUndisturbed({ directory: join(directory, 'calm'), database: url });
    for await (const seed of seeds) {
      await connection.emptyTables();
      const folder = join(directory, String(seed));
      const started = performance.now();
      const log = values.verbose ? { log: (line: string) => console.log(line) } : {};
      const played = await playSchedule({ seed, directory: folder, database: url, connection, oracle, ...log });
      rmSync(folder, { recursive: true, force: true });
      const seconds = (performance.now() - started) / 1000;
      sum.numSchedules += 1;
      sum.numJobs += played.numJobs;
      sum.numGivenUp += played.numGivenUp;
      sum.virtualMs += played.virtualMs;
      for (const [name, count] of played.faults) sum.faults[name] = (sum.faults[name] ?? 0) + count;
      const numFaults = [...played.faults.values()].reduce((all, count) => all + count, 0);
      console.log(
        `seed ${seed}: ${played.numJobs} jobs, ${numFaults} faults, ${Math.round(played.virtualMs / 1000)} s in ${seconds.toFixed(1)} s` +
          played.violations.map((violation) => `\n  ${violation}`).join(''),
      );
      if (played.violations.length > 0) sum.broken[seed] = [...played.violations];
      if (played.violations.length > 0 && values['stop-at-first']) break;
    }
  } finally {
    await connection?.close();
  }
  return sum;
}

function ownSeeds(): number[] {
  if (values.seed !== undefined) return [Number(values.seed)];
  return Array.from({ length: Number(values.schedules) }, (_, index) => Number(values.first) + index);
}

function sumOf(first: Report, second: Report): Report {
  const faults = { ...first.faults };
  for (const [name, count] of Object.entries(second.faults)) faults[name] = (faults[name] ?? 0) + count;
  return {
    numSchedules: first.numSchedules + second.numSchedules,
    numJobs: first.numJobs + second.numJobs,
    numGivenUp: first.numGivenUp + second.numGivenUp,
    virtualMs: first.virtualMs + second.virtualMs,
    faults,
    broken: { ...first.broken, ...second.broken },
  };
}

function print(sum: Report): void {
  const seeds = Object.keys(sum.broken);
  const faults = Object.entries(sum.faults).toSorted(([first], [second]) => (first < second ? -1 : 1));
  console.log(`faults: ${faults.map(([name, count]) => `${name} ${count}`).join(', ')}`);
  console.log(
    `${sum.numSchedules} schedules, ${sum.numJobs} jobs, ${Math.round(sum.virtualMs / 3_600_000)} hours of the service; ${sum.numGivenUp} jobs given up after too many attempts`,
  );
  const perSchedule = (seconds: number) => (seconds / sum.numSchedules).toFixed(2);
  const processor = processorSeconds();
  console.log(
    `a schedule: ${perSchedule(performance.now() / 1000)} s` +
      (processor === null ? '' : `, ${perSchedule(processor)} s of a processor with the database server's`),
  );
  console.log(seeds.length === 0 ? '0 lost, 0 doubled' : `broken: seeds ${seeds.join(', ')}`);
  process.exitCode = seeds.length === 0 ? 0 : 1;
}
