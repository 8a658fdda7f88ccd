import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

import type { Scope, Store } from '@trainyard/store';

/** Everything a first user may do. */
const ADMIN_SCOPES: readonly Scope[] = ['inference', 'training', 'admin'];

/** The key to use: made just now, or fixed by the configuration, or read from the key file. */
export interface ServiceKey {
  readonly secret: string;
  readonly isNew: boolean;
}

/** The key a client needs; null when it is not at hand. A made-up one is shown once and kept in a file that only its owner can read, for commands on this machine. */
export async function ensureServiceKey(
  store: Store,
  config: { readonly entity: string; readonly apiKey: string | null },
  { keyFile, log }: { keyFile: string; log: (line: string) => void },
): Promise<ServiceKey | null> {
  const entity = await store.ensureEntity(config.entity);
  const input = { entityId: entity.id, name: 'admin', scopes: ADMIN_SCOPES, isServiceKey: true };
  if (config.apiKey !== null) {
    const { numReplaced } = await store.ensureKey({ ...input, secret: config.apiKey });
    if (numReplaced > 0) log('the configured key takes the place of the one before, which is revoked');
    writeKeyFile(keyFile, config.apiKey);
    return { secret: config.apiKey, isNew: false };
  }
  const kept = existsSync(keyFile) ? readFileSync(keyFile, 'utf8').trim() : null;
  if (kept !== null && (await store.verifyKey(kept)) !== null) return { secret: kept, isNew: false };
  const now = store.now();
  const keys = await store.listKeys(entity.id);
  const isAdminLeft = keys.some(
    ({ scopes, revokedAt, expiresAt }) =>
      scopes.includes('admin') && revokedAt === null && (expiresAt === null || expiresAt > now),
  );
  // Whoever has it may make others; nobody else can.
  if (isAdminLeft) return null;
  const { secret } = await store.createKey(input);
  writeKeyFile(keyFile, secret);
  return { secret, isNew: true };
}

function writeKeyFile(path: string, secret: string): void {
  rmSync(path, { force: true }); // an existing file would keep its permissions
  writeFileSync(path, `${secret}\n`, { mode: 0o600 });
}
