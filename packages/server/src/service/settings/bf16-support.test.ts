import { expect, test } from 'vitest';

import { multipliesBf16, needsBf16, oneDnnProblem } from './bf16-support.ts';
import { resolveConfig } from './config.ts';
import type { ConfigSources } from './read-settings.ts';

const cpuinfo = (...flags: string[]) => `processor\t: 0\nflags\t\t: fpu ${flags.join(' ')}\nbugs\t\t:\n`;

test.each([
  [cpuinfo('avx512f', 'avx512_bf16', 'x'), true],
  [cpuinfo('amx_tile', 'amx_bf16'), true],
  [cpuinfo('avx2', 'avx512_bf1'), false],
  ['processor\t: 0\nFeatures\t: asimd\n', null],
  [null, null],
])('the processor is asked by the flags of the system: %j', (text, expected) => {
  expect(multipliesBf16(text)).toBe(expected);
});

const problemOf = (oneDnnPath: string) => oneDnnProblem({ oneDnnPath });

test('the library is loaded, by its path or by a name that the system finds', async () => {
  expect(await problemOf('/nowhere/libdnnl.so.3')).toBe('there is no /nowhere/libdnnl.so.3');
  expect(await problemOf(import.meta.filename)).toMatch(/bf16-support\.test\.ts cannot be loaded \(.+\)$/);
  expect(await problemOf('libnowhere.so.3')).toMatch(/^the system finds no library libnowhere\.so\.3 \(.+\)$/);
});

test.runIf(process.platform === 'linux')('a library that is no addon of Node.js is accepted all the same', async () => {
  expect(await problemOf('libm.so.6')).toBeNull();
});

test('a service that computes nothing itself needs none', () => {
  const config = (flags: ConfigSources['flags']) =>
    resolveConfig({ flags: { precision: 'bf16', ...flags }, environment: {}, configPath: null });
  const elsewhere = { vllm: 'http://127.0.0.1:1', trainerUrl: 'http://127.0.0.1:1' };
  expect(needsBf16(config({}))).toBe(true);
  expect(needsBf16(config({ vllm: elsewhere.vllm }))).toBe(true);
  expect(needsBf16(config({ trainerUrl: elsewhere.trainerUrl }))).toBe(true);
  expect(needsBf16(config(elsewhere))).toBe(false);
  expect(needsBf16(config({ precision: 'exact' }))).toBe(false);
  expect(needsBf16(config({ role: 'trainer', database: 'postgres://127.0.0.1/x' }))).toBe(true);
});
