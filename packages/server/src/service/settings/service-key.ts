import { makeKeySecret, type Scope, type Store } from '@trainyard/store';

import { readKeyFile, writeKeyFile } from '../../seams/data/key-file.ts';
import { isKeyValid } from '../../gateway/edge/valid-key.ts';

/** All scopes, for the first user. */
const ADMIN_SCOPES: readonly Scope[] = ['inference', 'training', 'admin'];

/** Key of the service: newly created, configured, or read from the key file. */
export interface ServiceKey {
  readonly secret: string;
  readonly isNew: boolean;
}

/**
 * Key that a client needs; null if it is unavailable. A generated key is shown once and kept in a file that
 * only its owner can read, for commands on this machine.
 */
export async function ensureServiceKey(
  store: Store,
  config: { readonly entity: string; readonly apiKey: string | null },
  { keyFile, log }: { keyFile: string; log: (line: string) => void },
): Promise<ServiceKey | null> {
  const entity = await store.keys.ensureEntity(config.entity);
  const input = { entityId: entity.id, name: 'admin', scopes: ADMIN_SCOPES, isServiceKey: true };
  if (config.apiKey !== null) {
    writeKeyFile(keyFile, config.apiKey);
    const { numReplaced } = await store.keys.ensure({ ...input, secret: config.apiKey });
    if (numReplaced > 0) log('the configured key replaces the previous one, which is revoked');
    return { secret: config.apiKey, isNew: false };
  }
  const { secret: kept, problem } = readKeyFile(keyFile);
  if (kept !== null && (await store.keys.verify(kept)) !== null) return { secret: kept, isNew: false };
  const now = store.clock.now();
  const keys = await store.keys.list(entity.id);
  const isAdminLeft = keys.some((key) => key.scopes.includes('admin') && isKeyValid(key, now));
  if (isAdminLeft) {
    // Only that admin can create other keys.
    if (problem !== null) log(problem);
    return null;
  }
  // File first: a key whose secret is not kept would lock everyone out.
  const secret = makeKeySecret();
  writeKeyFile(keyFile, secret);
  await store.keys.create({ ...input, secret });
  return { secret, isNew: true };
}
