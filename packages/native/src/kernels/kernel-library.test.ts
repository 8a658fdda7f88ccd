import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { expect, test } from 'vitest';
import { kernelLibrary, kernelPath } from './kernel-library.ts';

const BUILT = [
  ['linux', 'x64'],
  ['linux', 'arm64'],
  ['darwin', 'arm64'],
] as const;
const paths = BUILT.map(([platform, arch]) => kernelPath(platform, arch));

test('the committed builds have the committed digests', () => {
  const lines = paths.map(
    (path) => `${createHash('sha256').update(readFileSync(path)).digest('hex')}  ${basename(path)}`,
  );
  const committed = readFileSync(new URL('../../kernels/prebuilt/SHA256SUMS', import.meta.url), 'utf8');
  expect(committed.trim().split('\n').toSorted()).toEqual(lines.toSorted());
});

test('the committed builds have no path of the machine that built them', () => {
  for (const path of paths) {
    const text = readFileSync(path).toString('latin1');
    expect(text.match(/\/(?:root|home|Users|work|tmp|builds?)\/[\w./-]{1,60}/g) ?? []).toEqual([]);
  }
});

test('a platform without a build has no library, and this one finds its instruction sets', () => {
  expect(existsSync(kernelPath('aix', 'ppc64'))).toBe(false);
  const library = kernelLibrary();
  expect(library === null).toBe(!existsSync(kernelPath()));
  if (library === null) return;
  console.log(`${process.platform}-${process.arch}: ${library.instructionSets.join(', ')}`);
  if (process.arch === 'arm64') expect(library.instructionSets).toEqual(['neon']);
  else expect(['avx512,avx2', 'avx2', '']).toContain(library.instructionSets.join());
});
