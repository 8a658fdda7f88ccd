import { availableParallelism } from 'node:os';

import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';

import { findPostgres } from './scripts/lib/postgres.mjs';
import { hasTorchEnvironment, torchEnvironment } from './scripts/lib/torch-environment.mjs';

const MODEL_TESTS = '**/*.model.test.ts';
/** They run PyTorch: a project that exists where its environment does. `npm test` says so where it does not. */
const TORCH_TESTS = '**/*.torch.test.ts';
/** They start a database server: a project that exists where there is one. `npm test` says so where there is none. */
const POSTGRES_TESTS = '**/*.postgres.test.ts';
const NEVER = ['**/node_modules/**', '**/fixtures/**'];

/** The timeout is not a measure of speed: it ends tests that hang, on a machine that does a dozen other things too. */
const HANGS_AFTER_MS = 120_000;

/** Files that run alone and isolated: native code that crashes takes one file with it, and each of them may use all cores. */
const ALONE = { isolate: true, fileParallelism: false } as const;
/**
 * Files that start a service of their own: two at a time, since each waits half of its time, for a start, for a client of its own, for a limit. Threads spin
 * at barriers, so two services that want all cores cost a fifth more processor time than two that have half of them.
 */
const IN_PAIRS = {
  isolate: true,
  maxWorkers: 2,
  env: { TRAINYARD_THREADS: String(Math.max(1, Math.floor(availableParallelism() / 2))) },
} as const;

/** As `packages/generation/src/testing/guests.ts` knows them. */
const GUESTS = ['along', 'specs', 'little'];

const PROJECTS: TestProjectInlineConfiguration['test'][] = [
  // Not isolated: one worker runs many files, which saves the start of a process for each.
  {
    name: 'unit',
    include: ['packages/**/*.test.ts'],
    exclude: [...NEVER, MODEL_TESTS, TORCH_TESTS, POSTGRES_TESTS, 'packages/native/**'],
    isolate: false,
  },
  ...GUESTS.map(guestProject),
  ...postgresProject(findPostgres(process.env)),
  { name: 'native', include: ['packages/native/**/*.test.ts'], exclude: [...NEVER, MODEL_TESTS], ...ALONE },
  { name: 'tests', include: ['tests/**/*.test.ts'], exclude: [...NEVER, MODEL_TESTS], ...IN_PAIRS },
  { name: 'model', include: [MODEL_TESTS], exclude: NEVER, ...ALONE },
  ...((await hasTorchEnvironment(import.meta.dirname))
    ? [torchProject(torchEnvironment(import.meta.dirname).python)]
    : []),
];

/** The behaviour of the whole service once more, over a back end that is not stepped by it: see `packages/server/src/testing/guest-refusal.ts`. */
function guestProject(guest: string): TestProjectInlineConfiguration['test'] {
  return {
    name: `guest-${guest}`,
    include: ['packages/server/src/behaviour/*.test.ts'],
    exclude: NEVER,
    env: { TRAINYARD_TEST_GUEST: guest },
    isolate: false,
  };
}

/** Its tests find the programs of the server where this variable says. */
function postgresProject(programs: string | null) {
  if (programs === null) return [];
  return [
    { name: 'postgres', include: [POSTGRES_TESTS], exclude: NEVER, env: { TRAINYARD_POSTGRES: programs }, ...ALONE },
  ];
}

/** Its tests find Python where this variable says. */
function torchProject(python: string) {
  return { name: 'torch', include: [TORCH_TESTS], exclude: NEVER, env: { TRAINYARD_TORCH_PYTHON: python }, ...ALONE };
}

export default defineConfig({
  resolve: { conditions: ['@trainyard/source'] },
  ssr: { resolve: { conditions: ['@trainyard/source'] } },
  test: {
    pool: 'forks',
    execArgv: ['--conditions=@trainyard/source'],
    testTimeout: HANGS_AFTER_MS,
    hookTimeout: HANGS_AFTER_MS,
    expect: { poll: { timeout: HANGS_AFTER_MS / 2 } },
    // The projects run one after the other (groupOrder), so that nothing competes with a model test.
    projects: PROJECTS.map((test, groupOrder) => ({ extends: true, test: { ...test, sequence: { groupOrder } } })),
  },
});
