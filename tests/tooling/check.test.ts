import { expect, test } from 'vitest';

import { runScript } from './support/run-script.ts';
import { SampleRepository } from './support/sample-repository.ts';

const STEPS = ['format', 'prose', 'english', 'lint', 'arrows', 'rooms', 'types', 'dashboard', 'dead-code'];

const INDEX = 'packages/tokenizer/src/index.ts';
const useOfNative = `import { vocabSize } from '@trainyard/native';\n\nexport const lastTokenId = vocabSize - 1;\n`;

async function check(changes: Record<string, string>, steps: readonly string[] = []) {
  await using sample = await SampleRepository.create(changes);
  const { exitCode, output } = await runScript('scripts/check.mjs', ['--root', sample.root, ...steps]);
  const failedSteps = STEPS.filter((name) => new RegExp(`^FAIL  ${name} `, 'm').test(output));
  return { exitCode, output, failedSteps };
}

test('a repository without faults passes every step, and each prints its seconds', async () => {
  const { exitCode, output } = await check({});
  expect(output).toContain('check: all steps passed');
  for (const name of STEPS) expect(output).toMatch(new RegExp(`^ok {4}${name} +\\d+\\.\\d s$`, 'm'));
  expect(exitCode).toBe(0);
});

const FAULTS: { fault: string; step: string; message: string; changes: Record<string, string> }[] = [
  {
    fault: 'an unawaited promise',
    step: 'lint',
    message: 'no-floating-promises',
    changes: { [INDEX]: `${useOfNative}\nexport function start(work: () => Promise<void>): void {\n  work();\n}\n` },
  },
  {
    fault: 'an import against the arrows',
    step: 'arrows',
    message: 'native may import no other package',
    changes: { 'packages/native/src/index.ts': `import '@trainyard/tokenizer';\n\nexport const vocabSize = 49_152;\n` },
  },
  {
    fault: 'a dynamic import against the arrows',
    step: 'arrows',
    message: 'native may import no other package',
    changes: {
      'packages/native/src/index.ts': `export const vocabSize = 49_152;\nawait import('@trainyard/engine');\n`,
    },
  },
  {
    fault: 'a deep import',
    step: 'arrows',
    message: 'symbols that index.ts does not export are private',
    changes: { [INDEX]: useOfNative.replace('@trainyard/native', '@trainyard/native/src/index.ts') },
  },
  {
    fault: 'a Node.js import in a package for browsers',
    step: 'arrows',
    message: 'also runs in a browser',
    changes: { 'packages/protocol/src/index.ts': `import 'node:fs';\n` },
  },
  {
    fault: 'a relative path into another package',
    step: 'arrows',
    message: 'imports ../../native/src/index.ts, outside its package',
    changes: { [INDEX]: useOfNative.replace('@trainyard/native', '../../native/src/index.ts') },
  },
  {
    fault: 'a dependency against the arrows',
    step: 'arrows',
    message: 'dependencies has @trainyard/tokenizer; native may import no other package',
    changes: {
      'packages/native/package.json': `{ "name": "@trainyard/native", "version": "0.1.0", "dependencies": { "@trainyard/tokenizer": "0.1.0" } }\n`,
    },
  },
  {
    fault: 'a package that is missing in the table of arrows',
    step: 'arrows',
    message: 'packages/utils: not in the table',
    changes: { 'packages/utils/package.json': `{ "name": "@trainyard/utils", "version": "0.1.0" }\n` },
  },
  {
    fault: 'types that form a cycle between two files',
    step: 'rooms',
    message: 'packages/native/src: index.ts → size.ts → index.ts: import cycle between files',
    changes: {
      'packages/native/src/index.ts': `import type { Size } from './size.ts';\n\nexport type Vocabulary = { size: Size };\n`,
      'packages/native/src/size.ts': `export type Size = import('./index.ts').Vocabulary['size'];\n`,
    },
  },
  {
    fault: 'rooms that import each other, though no file does',
    step: 'rooms',
    message: 'packages/engine/src/: batching → sampling → batching: 2 rooms form an import cycle',
    changes: {
      'packages/engine/src/sampling/draw.ts': `export { turn } from '../batching/turn.ts';\n`,
      'packages/engine/src/sampling/row.ts': `export const row = 1;\n`,
      'packages/engine/src/batching/turn.ts': `export const turn = 1;\n`,
      'packages/engine/src/batching/step.ts': `export { row } from '../sampling/row.ts';\n`,
    },
  },
  {
    fault: 'folders of a room that import each other',
    step: 'rooms',
    message: 'packages/engine/src/batching/: fill → plan → fill: 2 rooms form an import cycle',
    changes: {
      'packages/engine/src/batching/plan/draw.ts': `export { turn } from '../fill/turn.ts';\n`,
      'packages/engine/src/batching/plan/row.ts': `export const row = 1;\n`,
      'packages/engine/src/batching/fill/turn.ts': `export const turn = 1;\n`,
      'packages/engine/src/batching/fill/step.ts': `export { row } from '../plan/row.ts';\n`,
    },
  },
  {
    fault: 'a wing that imports one above it',
    step: 'rooms',
    message: 'packages/server/src/seams/clock.ts: imports jobs/lease.ts, of a wing above its own',
    changes: {
      'packages/server/src/seams/clock.ts': `export { lease } from '../jobs/lease.ts';\n`,
      'packages/server/src/jobs/lease.ts': `export const lease = 1;\n`,
    },
  },
  {
    fault: 'a folder outside the wings',
    step: 'rooms',
    message: 'packages/server/src/extras/clock.ts: in none of the wings seams, hub, training-data',
    changes: { 'packages/server/src/extras/clock.ts': `export const clock = 1;\n` },
  },
  {
    fault: 'a folder with too many files',
    step: 'rooms',
    message: 'packages/native/src/gguf: holds 21 files, tests apart; at most 20',
    changes: Object.fromEntries(
      Array.from({ length: 21 }, (_, index) => [
        `packages/native/src/gguf/part-${index}.ts`,
        `export const part = ${index};\n`,
      ]),
    ),
  },
  {
    fault: 'a testing module exported by an index',
    step: 'rooms',
    message: 'packages/engine/src/index.ts: imports testing/scripted.ts, which is for tests',
    changes: {
      'packages/engine/src/testing/scripted.ts': `export const scripted = 1;\n`,
      'packages/engine/src/index.ts': `export { scripted } from './testing/scripted.ts';\n`,
    },
  },
  {
    fault: 'a testing module of another package',
    step: 'rooms',
    message: 'packages/server/src/service/start-service.ts: imports @trainyard/engine/testing, which is for tests',
    changes: {
      'packages/server/src/service/start-service.ts': `import { openScriptedEngine } from '@trainyard/engine/testing';\n\nexport const open = openScriptedEngine;\n`,
      'packages/server/src/service.test.ts': `import { openScriptedEngine } from '@trainyard/engine/testing';\n\nopenScriptedEngine();\n`,
    },
  },
  {
    fault: 'a type error in a package',
    step: 'types',
    message: "error TS2322: Type 'number' is not assignable to type 'string'",
    changes: { [INDEX]: `${useOfNative}export const lastText: string = lastTokenId;\n` },
  },
  {
    fault: 'a type error in a script',
    step: 'types',
    message: 'error TS2345',
    changes: { 'scripts/hello.mjs': `console.log(Number.parseInt(5));\n` },
  },
  {
    fault: 'a file with double quotes',
    step: 'format',
    message: INDEX,
    changes: { [INDEX]: useOfNative.replaceAll("'", '"') },
  },
  {
    fault: 'a line of prose that is too wide',
    step: 'prose',
    message: 'docs/page.md: prose wider than 160 columns',
    changes: { 'docs/page.md': `${'word '.repeat(33)}end\n\n| ${'tables may be wide '.repeat(12)}|\n` },
  },
  {
    fault: 'a docstring that starts with half a sentence',
    step: 'english',
    message: 'packages/native: docstrings that begin with What, Of, How, Who, Where, Whether or By: 1, at most 0',
    changes: { 'packages/native/src/index.ts': `\n/**\n * What it is.\n */\nexport const lastTokenId = 49_151;\n` },
  },
  {
    fault: 'a page with too many noun clauses',
    step: 'english',
    message: 'docs: noun clauses with "what": 3334 per 10,000 words, at most 6',
    changes: { 'docs/page.md': 'See what happens.\n' },
  },
  {
    fault: 'prose with noun clauses between questions and prompts, which are data',
    step: 'english',
    message: 'packages/native: noun clauses with "what": 2500 per 10,000 words, at most 6',
    changes: {
      'packages/native/src/index.ts': [
        `export const question = 'What is the capital of France?';`,
        `export const message = { role: 'user', content: 'Name what you like to eat.' };`,
        `export const hint = 'see what happens here';`,
      ].join('\n'),
    },
  },
  {
    fault: 'an unused file',
    step: 'dead-code',
    message: 'packages/tokenizer/src/forgotten.ts',
    changes: { 'packages/tokenizer/src/forgotten.ts': `export const forgotten = 1;\n` },
  },
  {
    fault: 'an unused dependency',
    step: 'dead-code',
    message: '@trainyard/native',
    changes: { [INDEX]: `export const lastTokenId = 49_151;\n` },
  },
];

test.each(FAULTS)('$fault fails the step $step', async ({ fault, step, message, changes }) => {
  const { exitCode, output, failedSteps } = await check(changes, [step]);
  console.log(
    `${fault}: ${
      output
        .split('\n')
        .find((line) => line.includes(message))
        ?.trim() ?? output
    }`,
  );
  expect(output).toContain(message);
  expect(failedSteps).toEqual([step]);
  expect(exitCode).toBe(1);
});

test('the steps after a failed one still run', async () => {
  const { output, failedSteps } = await check({ [INDEX]: useOfNative.replaceAll("'", '"') });
  expect(failedSteps).toEqual(['format']);
  expect(output).toContain('ok    dead-code');
  expect(output.trimEnd().split('\n').at(-1)).toBe('check: failed in format');
});

test('an unknown step is refused', async () => {
  const { exitCode, output } = await runScript('scripts/check.mjs', ['typos']);
  expect(output).toContain(
    'unknown steps: typos; the steps are format, prose, english, lint, arrows, rooms, types, dashboard, dead-code',
  );
  expect(exitCode).toBe(2);
});
