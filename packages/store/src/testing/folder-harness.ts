import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FolderBlobs } from '../blobs/folder-blobs.ts';
import type { BlobsHarness } from './blobs.suite.ts';

/** Blobs in a folder that is removed with the harness. */
export async function folderHarness(): Promise<BlobsHarness> {
  const root = await mkdtemp(join(tmpdir(), 'trainyard-blobs-'));
  const handles: FolderBlobs[] = [];
  return {
    async open() {
      const blobs = await FolderBlobs.open(root);
      handles.push(blobs);
      return blobs;
    },
    async destroy() {
      for (const blobs of handles) await blobs.close();
      await rm(root, { recursive: true });
    },
  };
}
