import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { FolderBlobs } from '../blobs/folder-blobs.ts';
import { copyBlobs } from './copy-blobs.ts';

async function openFolders() {
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-copy-'));
  const [from, to] = [await FolderBlobs.open(join(folder, 'from')), await FolderBlobs.open(join(folder, 'to'))];
  onTestFinished(async () => {
    for (const blobs of [from, to]) await blobs.close();
    await rm(folder, { recursive: true });
  });
  const staged = await from.stageDirectory();
  for (const name of ['weights.bin', 'optimizer.bin', 'SUMS']) await writeFile(join(staged, name), name);
  await from.commitDirectory(staged, 'checkpoints/1');
  return { from, to };
}

test.each(['before', 'after'])(
  'a copy is whole if the source loses its optimizer state %s it is copied',
  async (when) => {
    const { from, to } = await openFolders();
    let isRemoved = false;
    const lose = async () => {
      if (isRemoved) return;
      isRemoved = true;
      await from.removeDirectoryFile('checkpoints/1', 'optimizer.bin', { path: 'SUMS', text: 'weights' });
    };
    if (when === 'before') {
      const stage = to.stageDirectory.bind(to);
      to.stageDirectory = async () => {
        await lose();
        return await stage();
      };
    } else {
      const commit = to.commitDirectory.bind(to);
      to.commitDirectory = async (...values) => {
        await commit(...values);
        await lose();
      };
    }
    const { files, missing } = await copyBlobs(from, to);
    expect(missing).toEqual([]);
    const names = when === 'before' ? ['SUMS', 'weights.bin'] : ['SUMS', 'optimizer.bin', 'weights.bin'];
    expect(files.map(({ name }) => name)).toEqual(names.map((name) => `directories/checkpoints/1/${name}`));
  },
);

test('a blob in the target with the same key stays, and the copy is refused', async () => {
  const { from, to } = await openFolders();
  const staged = await to.stageDirectory();
  await writeFile(join(staged, 'weights.bin'), 'others');
  await to.commitDirectory(staged, 'checkpoints/1');
  await expect(copyBlobs(from, to)).rejects.toMatchObject({ code: 'store.blob_exists' });
  expect(await to.directoryFiles('checkpoints/1')).toEqual([{ path: 'weights.bin', sizeBytes: 6 }]);
});
