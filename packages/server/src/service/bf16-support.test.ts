import { expect, test } from 'vitest';

import { bf16Support } from './bf16-support.ts';

const cpuinfo = (...flags: string[]) => `processor\t: 0\nflags\t\t: fpu ${flags.join(' ')}\nbugs\t\t:\n`;

test.each([
  [cpuinfo('avx512f', 'avx512_bf16', 'x'), true],
  [cpuinfo('amx_tile', 'amx_bf16'), true],
  [cpuinfo('avx2', 'avx512_bf1'), false],
  ['processor\t: 0\nFeatures\t: asimd\n', null],
  [null, null],
])('the processor is asked by the flags of the system: %j', (text, expected) => {
  expect(bf16Support({ oneDnnPath: 'libdnnl.so.3' }, text)).toEqual({ processor: expected, library: null });
});

test('the library is looked for where a path is given', () => {
  expect(bf16Support({ oneDnnPath: process.execPath }, null).library).toBe(true);
  expect(bf16Support({ oneDnnPath: '/nowhere/libdnnl.so.3' }, null).library).toBe(false);
});
