import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file system in memory. */
const MEMORY = '/dev/shm';
/** Several times as much as the tests keep at the same time. */
const NEEDED_BYTES = 8e9;

/**
 * Creates a folder for the temporary files of the tests: in memory if there is room, else on disk. On disk,
 * fsync takes half the time of tests that write checkpoints. Tests end processes, not machines, so none of
 * them depends on a disk.
 *
 * @param {string} [memory]
 * @returns {string} its path
 */
export function makeTestFolder(memory = MEMORY) {
  return folderInMemory(memory) ?? readableFolder(tmpdir());
}

/** @param {string} memory @returns {string | null} */
function folderInMemory(memory) {
  /** @type {string | null} */
  let folder = null;
  try {
    const { bavail, bsize } = statfsSync(memory);
    if (Math.min(bavail * bsize, process.availableMemory()) < NEEDED_BYTES) return null;
    folder = readableFolder(memory);
    // Some containers mount it with `noexec`, and tests run programs that they write.
    const program = join(folder, 'program');
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 });
    const canRun = spawnSync(program).status === 0;
    rmSync(program);
    if (canRun) return folder;
  } catch {
    // There is none, or this user cannot write to it.
  }
  if (folder !== null) rmSync(folder, { recursive: true });
  return null;
}

/** The account of a PostgreSQL server reads below it. @param {string} parent @returns {string} */
function readableFolder(parent) {
  const folder = mkdtempSync(join(parent, 'trainyard-test-'));
  chmodSync(folder, 0o711);
  return folder;
}
