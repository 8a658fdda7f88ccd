import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { type Blobs, hashOf, openBlobs } from '@trainyard/store';
import { CREDENTIALS, MemoryBucket, REGION } from '@trainyard/store/testing';
import { formatFileSums } from '@trainyard/trainer';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { type AdapterFormat, adapterPath, findAdapter } from './backends.ts';
import type { ResolvedModel } from './model-names.ts';

const WEIGHTS = 'adapter_model.safetensors';
const ENGINE_FILES = ['SHA256SUMS', 'adapter.gguf', 'adapter_config.json'];
const OPTIMIZER = 'optimizer.safetensors';

let root: string;
let bucket: MemoryBucket;
const opened: Blobs[] = [];
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'trainyard-adapter-path-'));
  bucket = await MemoryBucket.start();
});
afterAll(async () => {
  await Promise.all(opened.map((blobs) => blobs.close()));
  await bucket.close();
  await rm(root, { recursive: true });
});

/** A process with its own cache of the bucket. */
async function ownBlobs(): Promise<Blobs> {
  const cacheDirectory = join(root, `cache-${opened.length}`);
  const location = { kind: 's3', url: bucket.url, region: REGION, cacheDirectory, cacheBytes: 1e9 } as const;
  const { accessKeyId, secretAccessKey } = CREDENTIALS;
  const blobs = await openBlobs(location, { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey });
  opened.push(blobs);
  return blobs;
}

/** Writes a checkpoint through another process. */
async function written(directoryKey: string, { alpha = 8, hasSums = true } = {}): Promise<ResolvedModel> {
  const blobs = await ownBlobs();
  const folder = await blobs.stageDirectory();
  const files = { [WEIGHTS]: 'weights', 'adapter.gguf': `gguf ${alpha}`, [OPTIMIZER]: 'state' };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify({ r: 8, lora_alpha: alpha }));
  const sums = await Promise.all(
    readdirSync(folder).map(async (name) => [name, (await hashOf(join(folder, name))).sha256] as const),
  );
  if (hasSums) writeFileSync(join(folder, 'SHA256SUMS'), formatFileSums(sums));
  const { sha256: digest } = await hashOf(join(folder, WEIGHTS));
  await blobs.commitDirectory(folder, directoryKey);
  return { kind: 'adapter', name: directoryKey, project: null, createdAt: 0, directoryKey, digest, base: {} as never };
}

const parts = (adapterFormat?: AdapterFormat) => ({ log: () => {}, ...(adapterFormat && { adapterFormat }) });

test.each([
  ['gguf', ENGINE_FILES],
  ['peft', [...ENGINE_FILES, WEIGHTS]],
  [undefined, [...ENGINE_FILES, WEIGHTS]],
] as const)('an engine of the format %s downloads %j', async (format, expected) => {
  const model = await written(`adapters/whole-${format}`);
  const found = await findAdapter(await ownBlobs(), model, parts(format));
  const { path } = found as { path: string };
  expect(await readFile(path, 'utf8')).toBe('gguf 8');
  expect(readdirSync(dirname(path)).toSorted()).toEqual(expected);
});

test('without a list of digests the weights are downloaded, since the digest is theirs', async () => {
  const model = await written('adapters/no-list', { hasSums: false });
  const { path } = (await findAdapter(await ownBlobs(), model, parts('gguf'))) as { path: string };
  expect(readdirSync(dirname(path))).toContain(WEIGHTS);
});

test('adapters of equal weights and another scale stay two without the PEFT file', async () => {
  const models = [await written('adapters/alpha-8'), await written('adapters/alpha-16', { alpha: 16 })];
  const blobs = await ownBlobs();
  const [one, other] = await Promise.all(models.map((model) => findAdapter(blobs, model, parts('gguf'))));
  expect((one as { digest: string }).digest).not.toBe((other as { digest: string }).digest);
});

test('a list of another adapter, and a damaged GGUF file, are refused', async () => {
  const model = await written('adapters/damaged');
  const blobs = await ownBlobs();
  const foreign = { ...model, digest: 'f'.repeat(64) } as ResolvedModel;
  await expect(findAdapter(blobs, foreign, parts('gguf'))).rejects.toMatchObject({ code: 'engine.adapter_damaged' });
  const path = (await adapterPath(blobs, 'adapters/damaged', 'gguf'))!;
  const bytes = readFileSync(path);
  bytes[0]! ^= 1;
  writeFileSync(path, bytes);
  // The cache itself may mend the file first: either way no damaged byte is sampled from.
  const again = await findAdapter(blobs, model, parts('gguf')).catch((error: { code: string }) => error.code);
  if (typeof again === 'object') expect(await readFile((again as { path: string }).path, 'utf8')).toBe('gguf 8');
  else expect(again).toBe('engine.adapter_damaged');
});
