import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { WEIGHTS_FILE } from '../integrity/check-folder.ts';

/** A safetensors file starts with the length of its header. Longer headers are not ours. */
const LENGTH_BYTES = 8;
const MAX_HEADER_BYTES = 16 * 2 ** 20;
/** Maximum number of folders to cache. */
const MAX_KNOWN = 10_000;

/** Keyed by folder. Folders never change. */
const known = new Map<string, Promise<string>>();
/** Keyed by digest: identities of adapters whose file does not contain the scale. */
const identities = new Map<string, Set<string>>();

/**
 * Name of an adapter on inference servers. It is the digest if that covers everything that decides the
 * result. Files from before decision 47 lack the scale: their name has the digest and alpha. Read once per
 * folder; falls back to the digest if unreadable.
 * @param directory of the adapter's files
 * @param digest SHA-256 of its `adapter_model.safetensors`, hex
 */
export function adapterIdentity(directory: string, digest: string): Promise<string> {
  const found = known.get(directory);
  if (found !== undefined) return found;
  const identity = identityOf(directory, digest).catch(() => {
    known.delete(directory);
    return digest;
  });
  known.set(directory, identity);
  const [oldest] = known.keys();
  if (known.size > MAX_KNOWN && oldest !== undefined) known.delete(oldest);
  return identity;
}

export function identitiesOf(digest: string): readonly string[] {
  return [digest, ...(identities.get(digest) ?? [])];
}

export function isIdentity(name: string): boolean {
  return Array.from(identities.values()).some((names) => names.has(name));
}

async function identityOf(directory: string, digest: string): Promise<string> {
  const weights = join(directory, WEIGHTS_FILE);
  // Without the file nothing shows that the digest covers the scale: a name with both is always right.
  if (existsSync(weights) && (await hasAlpha(weights))) return digest;
  const config = JSON.parse(await readFile(join(directory, 'adapter_config.json'), 'utf8')) as { lora_alpha: number };
  const identity = createHash('sha256')
    .update(`${digest} ${Number(config.lora_alpha)}`)
    .digest('hex');
  identities.set(digest, (identities.get(digest) ?? new Set()).add(identity));
  return identity;
}

async function hasAlpha(path: string): Promise<boolean> {
  await using file = await open(path, 'r');
  const length = Buffer.alloc(LENGTH_BYTES);
  await file.read(length, 0, LENGTH_BYTES, 0);
  const headerBytes = Number(length.readBigUInt64LE());
  if (headerBytes > MAX_HEADER_BYTES) return true;
  const header = Buffer.alloc(headerBytes);
  await file.read(header, 0, headerBytes, LENGTH_BYTES);
  const { __metadata__: metadata } = JSON.parse(header.toString('utf8')) as { __metadata__?: { lora_alpha?: string } };
  return metadata?.lora_alpha !== undefined;
}
