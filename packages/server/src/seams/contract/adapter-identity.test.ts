import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { hashOf, FolderBlobs } from '@trainyard/store';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { AdapterFiles } from '../../cluster/port/adapter-files.ts';
import { adapterIdentity, identitiesOf } from './adapter-identity.ts';
import { findAdapter, type InferenceRequest } from './backends.ts';
import type { ResolvedModel } from './model-names.ts';

let root: string;
let blobs: FolderBlobs;
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'trainyard-identity-'));
  blobs = await FolderBlobs.open(join(root, 'blobs'));
});
afterAll(async () => {
  await blobs.close();
  rmSync(root, { recursive: true, force: true });
});

/** Stores an adapter's files under a key. @param metadata of its safetensors file; null = it has none */
async function stored(directoryKey: string, alpha: number, metadata: object | null): Promise<ResolvedModel> {
  const folder = await blobs.stageDirectory();
  const header = JSON.stringify({
    ...(metadata === null ? {} : { __metadata__: metadata }),
    w: { dtype: 'F32', shape: [1], data_offsets: [0, 4] },
  });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const weights = join(folder, 'adapter_model.safetensors');
  writeFileSync(weights, Buffer.concat([length, Buffer.from(header), Buffer.alloc(4)]));
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify({ r: 8, lora_alpha: alpha }));
  writeFileSync(join(folder, 'adapter.gguf'), `alpha ${alpha}`);
  const { sha256: digest } = await hashOf(weights);
  await blobs.commitDirectory(folder, directoryKey);
  return { kind: 'adapter', name: directoryKey, project: null, createdAt: 0, directoryKey, digest, base: {} as never };
}

const HERE = { isRemote: false, log: () => {} };
const REMOTE = { isRemote: true, log: () => {} };

test.each([[null], [{ format: 'pt' }]])(
  'old adapters of the same weights and other alphas are two: %j',
  async (metadata) => {
    const name = JSON.stringify(metadata).length;
    const [first, same, other] = [
      await stored(`old/${name}/a`, 8, metadata),
      await stored(`old/${name}/b`, 8, metadata),
      await stored(`old/${name}/c`, 16, metadata),
    ];
    const digest = (first as { digest: string }).digest;
    expect([same, other]).toMatchObject([{ digest }, { digest }]);
    const served = await Promise.all([first, same, other].map((model) => findAdapter(blobs, model, HERE)));
    const names = served.map((adapter) => (adapter as { digest: string }).digest);
    expect(names[0]).toBe(names[1]);
    expect(names[0]).not.toBe(names[2]);
    for (const one of names) expect(one).toMatch(/^[0-9a-f]{64}$/);
    expect(identitiesOf(digest).toSorted()).toEqual([digest, names[0]!, names[2]!].toSorted());
    // A remote engine receives the digest of the file, and derives the same identity from it.
    const files = new AdapterFiles({ blobs, log: () => {} });
    const asked = await findAdapter(blobs, other, REMOTE);
    expect(asked).toMatchObject({ digest, path: null });
    const { adapter } = await files.find({ adapter: asked } as InferenceRequest);
    expect(adapter?.digest).toBe(names[2]);
    expect(files.digests).toEqual([digest]);
  },
);

test('an adapter whose file has its alpha is identified by its digest', async () => {
  const model = await stored('new/a', 8, { format: 'pt', lora_alpha: '8' });
  const { digest } = model as { digest: string };
  expect(await findAdapter(blobs, model, HERE)).toMatchObject({ digest });
  expect(identitiesOf(digest)).toEqual([digest]);
});

test('one that cannot be read is known by its digest', async () => {
  expect(await adapterIdentity(join(root, 'nowhere'), 'd')).toBe('d');
});
