import { StoreError } from '../contract/errors.ts';

const MAX_LENGTH = 200;

/** @throws {StoreError} `store.key_invalid` unless `key` is `[a-z0-9-]` segments joined by `/`, at most 200 characters */
export function checkBlobKey(key: string): void {
  if (key.length <= MAX_LENGTH && /^[a-z0-9-]+(\/[a-z0-9-]+)*$/.test(key)) return;
  throw new StoreError(
    'store.key_invalid',
    `a blob key is [a-z0-9-] segments joined by "/", at most ${MAX_LENGTH} characters, got ${JSON.stringify(key.slice(0, MAX_LENGTH))}`,
  );
}
