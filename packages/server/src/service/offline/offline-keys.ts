import type { ApiKeyObject, CreatedKeyObject, KeyLimitsRequest } from '@trainyard/protocol';
import { NO_LIMITS, openStore, type Scope, type SqlStore } from '@trainyard/store';

import type { ServiceConfig } from '../settings/config.ts';
import { claimDataDirectory } from '../../seams/data/data-directory.ts';
import { toKeyObject, toLimitChanges } from '../../seams/contract/key-object.ts';

/** Keys of a data folder whose service is not running, as its API would return them. */
export class OfflineKeys {
  readonly #store: SqlStore;
  readonly #release: () => void;
  readonly #entity: string;

  /**
   * Locks the folder while it is open, like a service.
   * @param config `entity`: owner of keys without one
   * @throws {ServerError} `server.data_directory_unusable`
   */
  static async open(config: Pick<ServiceConfig, 'dataDirectory' | 'database' | 'entity'>): Promise<OfflineKeys> {
    const release = claimDataDirectory(config.dataDirectory);
    try {
      return new OfflineKeys(await openStore(config.database), release, config.entity);
    } catch (error) {
      release();
      throw error;
    }
  }

  private constructor(store: SqlStore, release: () => void, entity: string) {
    this.#store = store;
    this.#release = release;
    this.#entity = entity;
  }

  /** @param key `expiresAt`: Unix seconds; null = never */
  async create(key: {
    name: string;
    scopes: readonly Scope[];
    entity: string | null;
    expiresAt: number | null;
    limits: KeyLimitsRequest;
  }): Promise<CreatedKeyObject> {
    const { id: entityId } = await this.#store.keys.ensureEntity(key.entity ?? this.#entity);
    const expiresAt = key.expiresAt === null ? null : key.expiresAt * 1000;
    const { secret, ...made } = await this.#store.keys.create({
      ...key,
      entityId,
      expiresAt,
      limits: { ...NO_LIMITS, ...toLimitChanges(key.limits) },
    });
    return { ...toKeyObject(made), secret };
  }

  /** Milliseconds since 1970, by this machine's clock. */
  async now(): Promise<number> {
    return Date.now();
  }

  async list(): Promise<ApiKeyObject[]> {
    return (await this.#store.keys.list()).map(toKeyObject);
  }

  /** Null if there is no such key. */
  async revoke(keyId: string): Promise<ApiKeyObject | null> {
    await this.#store.keys.revoke(keyId);
    const key = await this.#store.keys.get(keyId);
    return key === null ? null : toKeyObject(key);
  }

  /** Null if there is no such key. */
  async limit(keyId: string, limits: KeyLimitsRequest): Promise<ApiKeyObject | null> {
    const changed = await this.#store.keys.setLimits(keyId, toLimitChanges(limits));
    return changed === null ? null : toKeyObject(changed);
  }

  async close(): Promise<void> {
    await this.#store.close();
    this.#release();
  }
}
