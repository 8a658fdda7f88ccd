import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FolderBlobs } from '@trainyard/store';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { JobVersions } from './job-versions.ts';

let root: string;
let blobs: FolderBlobs;
let versions: JobVersions;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'versions-'));
  blobs = await FolderBlobs.open(join(root, 'blobs'));
  versions = new JobVersions(blobs, { snapshots: 'job-1', workDirectory: join(root, 'work') });
});
afterEach(async () => {
  await blobs.close();
  await rm(root, { recursive: true });
});

const write = async (name: string, text: string) =>
  await versions.write(name, (directory) => {
    writeFileSync(join(directory, 'digest'), text);
    return text;
  });
const read = async (name: string) => readFileSync(join((await versions.find(name))!, 'digest'), 'utf8');

test('snapshots are folders of this machine, everything else is a blob; both are replaced and removed', async () => {
  for (const name of ['job-1/step-1', 'checkpoints/c-1']) {
    expect(await versions.find(name)).toBe(null);
    expect(await write(name, 'one')).toBe('one');
    expect(await write(name, 'two')).toBe('two');
    expect(await read(name)).toBe('two');
  }
  expect(await blobs.listDirectories()).toEqual(['checkpoints/c-1']);
  expect(existsSync(join(root, 'work', 'job-1', 'step-1', 'digest'))).toBe(true);
  for (const name of ['job-1/step-1', 'checkpoints/c-1']) {
    await versions.remove(name);
    await versions.remove(name);
    expect(await versions.find(name)).toBe(null);
  }
  expect(await blobs.listDirectories()).toEqual([]);
});

test('a failed write leaves nothing, and the error names the full disk', async () => {
  const full = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
  for (const name of ['job-1/step-1', 'checkpoints/c-1']) {
    const failed = versions.write(name, () => {
      throw full;
    });
    await expect(failed).rejects.toMatchObject({ code: 'trainer.disk_full', retry: 'wait' });
    expect(await versions.find(name)).toBe(null);
  }
});
