import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';

import { LongFilesFirst } from './scripts/lib/long-files-first.mjs';
import { readImportGraph, sourcesOf } from './scripts/lib/import-graph.mjs';
import { findPostgres } from './scripts/lib/postgres.mjs';
import { hasTorchEnvironment, torchEnvironment } from './scripts/lib/torch-environment.mjs';

// Threads and processes that tests start would each take the types from their sources by a WebAssembly module of Node's, and V8 13.6 ends a process now and then
// in which threads with such modules come and go ("Check failed: jit_page.has_value()"). What is kept is read instead, in half the time.
process.env['NODE_COMPILE_CACHE'] ??= join(import.meta.dirname, '.cache/compiled-for-tests');

const MODEL_TESTS = '**/*.model.test.ts';
/** They run PyTorch: a project that exists if its environment does; `npm run test:all` reports a missing one. */
const TORCH_TESTS = '**/*.torch.test.ts';
/** They start a database server: a project that exists if there is one; `npm run test:all` reports a missing one. */
const POSTGRES_TESTS = '**/*.postgres.test.ts';
/** They start a server of S3's interface: a project that exists where this variable says that there is one, as `npm run lab -- s3` does. */
const S3_TESTS = '**/*.s3.test.ts';
/** They make network namespaces: a project that exists where this variable says that they may, as `npm run lab -- networks` does. */
const NETWORK_TESTS = '**/*.networks.test.ts';
/** They need a processor that multiplies bf16: a project that exists where this variable names the library, as `npm run lab -- bf16` does. */
const BF16_TESTS = '**/*.bf16.test.ts';
/** They start an MLflow server: a project that exists where this variable says that there is one, as `npm run lab -- mlflow` does. */
const MLFLOW_TESTS = '**/*.mlflow.test.ts';
/** They run coding agents: a project that exists where this variable names the folder of their packages, as `npm run lab -- agents` does. */
const AGENT_TESTS = '**/*.agents.test.ts';
const NEVER = ['**/node_modules/**', '**/fixtures/**'];

/** The timeout is not a measure of speed: it ends tests that hang, on a machine that does a dozen other things too. */
const HANGS_AFTER_MS = 120_000;

/** Three at a time keep two cores busy. */
const WORKERS = 3;
/** Isolated files wait for starts, clients and limits a quarter of their time: three kept 1.77 of two cores busy, four 1.86. */
const ISOLATED_WORKERS = 5;

/** Not isolated: one worker runs many files, which saves the start of a process for each. */
const SHARED = { isolate: false, maxWorkers: Math.max(WORKERS, availableParallelism() - 1) } as const;
/**
 * Files that take much, each in a process of its own, since native code that crashes takes it along. One with a model computes on one thread, or has half of
 * the threads. Threads spin at barriers, so two services that want all cores cost a fifth more processor time than two that have half of them.
 */
const ISOLATED = {
  isolate: true,
  maxWorkers: ISOLATED_WORKERS,
  env: { TRAINYARD_THREADS: String(Math.max(1, Math.floor(availableParallelism() / 2))) },
} as const;
/** Isolated ones of the first stage, in which all projects have as many workers. */
const AMONG_SHARED = { ...ISOLATED, maxWorkers: SHARED.maxWorkers } as const;

/** As `packages/generation/src/testing/guests.ts` knows them. */
const GUESTS = ['along', 'specs', 'little', 'vllm'];

const SERVER = join(import.meta.dirname, 'packages/server/src');

/** Rooms whose tests that open a store run once more, on the second database. */
const ON_POSTGRES = [
  'gateway/routes',
  'gateway/forms',
  'gateway/answers',
  'gateway/background',
  'gateway/edge',
  'jobs',
  'seams/data',
  'service',
  'training-data/choice-records',
];

type Project = TestProjectInlineConfiguration['test'];

/** Projects of one stage share its workers; one stage runs after the other. */
const STAGES: Project[][] = [
  [
    {
      name: 'unit',
      include: ['packages/**/*.test.ts'],
      exclude: [
        ...NEVER,
        MODEL_TESTS,
        TORCH_TESTS,
        POSTGRES_TESTS,
        MLFLOW_TESTS,
        S3_TESTS,
        BF16_TESTS,
        'packages/native/**',
      ],
      ...SHARED,
    },
    { name: 'path', include: ['tests/path/**/*.test.ts'], exclude: NEVER, ...AMONG_SHARED },
    {
      name: 'native',
      include: ['packages/native/**/*.test.ts'],
      exclude: [...NEVER, MODEL_TESTS, BF16_TESTS],
      ...AMONG_SHARED,
    },
    ...GUESTS.map(guestProject),
    behindPortProject(),
    ...servicePostgresProject(findPostgres(process.env)),
  ],
  [
    ...postgresProject(findPostgres(process.env)),
    ...(process.env['TRAINYARD_TEST_MLFLOW'] === undefined
      ? []
      : [{ name: 'mlflow', include: [MLFLOW_TESTS], exclude: NEVER, ...ISOLATED }]),
    ...(process.env['TRAINYARD_TEST_AGENTS'] === undefined
      ? []
      : [{ name: 'agents', include: [AGENT_TESTS], exclude: NEVER, ...ISOLATED }]),
    ...(process.env['TRAINYARD_TEST_S3_SERVER'] === undefined
      ? []
      : [{ name: 's3', include: [S3_TESTS], exclude: NEVER, ...ISOLATED }]),
    ...networksProject(findPostgres(process.env)),
    ...(process.env['TRAINYARD_TEST_BF16_LIBRARY'] === undefined
      ? []
      : [{ name: 'bf16', include: [BF16_TESTS], exclude: NEVER, ...ISOLATED }]),
    {
      name: 'tests',
      include: ['tests/**/*.test.ts'],
      exclude: [
        ...NEVER,
        'tests/path/**',
        MODEL_TESTS,
        POSTGRES_TESTS,
        S3_TESTS,
        BF16_TESTS,
        NETWORK_TESTS,
        AGENT_TESTS,
      ],
      ...ISOLATED,
    },
    { name: 'model', include: [MODEL_TESTS], exclude: NEVER, ...ISOLATED },
  ],
  (await hasTorchEnvironment(import.meta.dirname)) ? [torchProject(torchEnvironment(import.meta.dirname).python)] : [],
];

/** The behaviour of the whole service once more, over a back end that is not stepped by it: see `packages/server/src/testing/guest-refusal.ts`. */
function guestProject(guest: string): Project {
  return {
    name: `guest-${guest}`,
    include: ['packages/server/src/testing/behaviour/*.test.ts'],
    exclude: NEVER,
    ...SHARED,
    env: { TRAINYARD_TEST_GUEST: guest },
  };
}

/** The behaviour of the whole service once more, with what samples behind a port, as on another machine: see `packages/server/src/testing/behind-port.ts`. */
function behindPortProject(): Project {
  return {
    name: 'engine-port',
    include: ['packages/server/src/testing/behaviour/*.test.ts'],
    exclude: NEVER,
    ...SHARED,
    env: { TRAINYARD_TEST_ENGINE: 'port' },
  };
}

/** Its tests find the programs of the server where this variable says. */
function postgresProject(programs: string | null): Project[] {
  if (programs === null) return [];
  const env = { ...ISOLATED.env, TRAINYARD_TEST_POSTGRES: programs };
  return [{ name: 'postgres', include: [POSTGRES_TESTS], exclude: NEVER, ...ISOLATED, env }];
}

/** One file after the other: each makes the network of its machines, and half a dozen processes on them. */
function networksProject(programs: string | null): Project[] {
  if (programs === null || process.env['TRAINYARD_TEST_NETWORKS'] === undefined) return [];
  const env = { ...ISOLATED.env, TRAINYARD_TEST_POSTGRES: programs };
  return [{ name: 'networks', include: [NETWORK_TESTS], exclude: NEVER, isolate: true, fileParallelism: false, env }];
}

/** One server for all of its files, which `globalSetup` starts and ends. */
function servicePostgresProject(programs: string | null): Project[] {
  if (programs === null) return [];
  process.env['TRAINYARD_TEST_POSTGRES_PROGRAMS'] = programs;
  // A room that was moved would leave its tests out without a word.
  const missing = ON_POSTGRES.find((room) => !existsSync(join(SERVER, room)));
  if (missing !== undefined) throw new Error(`ON_POSTGRES names a folder that does not exist: ${missing}`);
  const openStores = sourcesOf(readImportGraph(SERVER), 'testing/test-store.ts');
  return [
    {
      name: 'service-postgres',
      include: [...openStores]
        .filter((path) => path.endsWith('.test.ts') && ON_POSTGRES.some((room) => path.startsWith(`${room}/`)))
        .map((path) => `packages/server/src/${path}`),
      exclude: [...NEVER, MODEL_TESTS, MLFLOW_TESTS, POSTGRES_TESTS],
      ...SHARED,
      env: { TRAINYARD_TEST_STORE: 'postgres' },
      globalSetup: ['packages/store/src/testing/postgres-setup.ts'],
    },
  ];
}

/** Its tests find Python where this variable says. PyTorch takes all cores. */
function torchProject(python: string): Project {
  const env = { TRAINYARD_TEST_TORCH_PYTHON: python };
  return { name: 'torch', include: [TORCH_TESTS], exclude: NEVER, isolate: true, fileParallelism: false, env };
}

export default defineConfig({
  resolve: { conditions: ['@trainyard/source'] },
  ssr: { resolve: { conditions: ['@trainyard/source'] } },
  test: {
    pool: 'forks',
    execArgv: ['--conditions=@trainyard/source'],
    // Node loads the tests and the sources as it does in the service, from its compile cache: half the processor time of Vite's runner.
    experimental: { viteModuleRunner: false, nodeLoader: false },
    testTimeout: HANGS_AFTER_MS,
    hookTimeout: HANGS_AFTER_MS,
    expect: { poll: { timeout: HANGS_AFTER_MS / 2 } },
    sequence: { sequencer: LongFilesFirst },
    projects: STAGES.flatMap((projects, groupOrder) =>
      projects.map((test) => ({ extends: true, test: { ...test, sequence: { groupOrder } } })),
    ),
  },
});
