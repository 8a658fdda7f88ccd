import { createHash } from 'node:crypto';

import { type Blobs, hashOf, StoreError } from '@trainyard/store';

/**
 * Stores an uploaded file, and its SHA-256 as a JSON value under the same key.
 * @throws as `Blobs.put`
 */
export async function putUpload(
  blobs: Pick<Blobs, 'put' | 'putJson'>,
  key: string,
  content: AsyncIterable<Buffer>,
): Promise<{ sizeBytes: number }> {
  const hash = createHash('sha256');
  const hashed = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of content) {
      hash.update(chunk);
      yield chunk;
    }
  };
  const stored = await blobs.put(key, hashed());
  await blobs.putJson(key, { sha256: hash.digest('hex') });
  return stored;
}

/**
 * True if an uploaded file still has the received content. Uploads of earlier releases have no digest, and
 * pass.
 */
export async function isUploadIntact(blobs: Pick<Blobs, 'getJson'>, key: string, path: string): Promise<boolean> {
  let recorded: { sha256: string };
  try {
    recorded = (await blobs.getJson(key)) as { sha256: string };
  } catch (error) {
    if (error instanceof StoreError && error.code === 'store.blob_missing') return true;
    throw error;
  }
  return recorded.sha256 === (await hashOf(path)).sha256;
}
