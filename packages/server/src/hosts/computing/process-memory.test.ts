import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { ProcessMemory, type MemoryFiles } from './process-memory.ts';

class Files implements MemoryFiles {
  killed: number | null = 3;
  peak: number | null = 2_345_678_901;
  numKilled = () => this.killed;
  peakOf = () => this.peak;
}

test('a host that the system killed for memory has that as its end, with its peak', () => {
  const files = new Files();
  const memory = new ProcessMemory(files);
  memory.look(1);
  files.peak = null; // the process is gone
  memory.look(1);
  files.killed = 4;
  expect(memory.endOf('SIGKILL', '')).toBe('the system killed it because the memory was full; its peak was 2,346 MB');
});

test.each([3, null])('without a known limit (%j) the signal is named with its usual cause', (killed) => {
  const files = new Files();
  files.killed = killed;
  const memory = new ProcessMemory(files);
  memory.look(1);
  expect(memory.endOf('SIGKILL', '')).toBe(
    'it was killed (SIGKILL), probably because the memory was full; its peak was 2,346 MB',
  );
});

test.each([
  ["terminate called after throwing an instance of 'std::bad_alloc'", 'SIGABRT'],
  ['FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory', 'SIGABRT'],
  ['Failed to allocate memory for requested buffer of size 123', null],
] as const)('a memory limit of the process is recognised by its last output: %s', (lines, signal) => {
  const files = new Files();
  files.peak = null;
  expect(new ProcessMemory(files).endOf(signal, lines)).toBe('it could not allocate memory');
});

test('other ends are none of memory', () => {
  const memory = new ProcessMemory(new Files());
  expect(memory.endOf('SIGSEGV', 'Segmentation fault')).toBeNull();
  expect(memory.endOf(null, '')).toBeNull();
});

test.runIf(process.platform === 'linux')('the peak of a process is its largest resident memory', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-memory-'));
  const path = join(folder, 'child.mjs');
  writeFileSync(
    path,
    'globalThis.kept = Buffer.alloc(300_000_000, 1); process.send("ready"); setInterval(() => {}, 1000);',
  );
  const child = fork(path);
  await once(child, 'message');
  const memory = new ProcessMemory();
  memory.look(child.pid!);
  child.kill('SIGKILL');
  await once(child, 'exit');
  rmSync(folder, { recursive: true });
  const megabytes = Number(/peak was ([\d,]+) MB/.exec(memory.endOf('SIGKILL', '') ?? '')?.[1]?.replaceAll(',', ''));
  expect(megabytes).toBeGreaterThan(300);
  expect(megabytes).toBeLessThan(500);
});
