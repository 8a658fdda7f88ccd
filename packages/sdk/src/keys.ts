import type { ApiKeyList, ApiKeyObject, CreatedKeyObject, CreateKeyRequest } from '@trainyard/protocol';

import type { CallOptions, Connection } from './connection.ts';

/** Who may use the service. Every call takes a key with the scope `admin`. */
export class Keys {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Makes a key.
   *
   * @param key `expiresAt`: when it stops being valid; never when absent. `entity`: whose it is; the caller's when absent
   * @returns the key with its `secret`, which is shown this once
   */
  async create(
    key: { name: string; scopes: CreateKeyRequest['scopes']; entity?: string; expiresAt?: Date },
    options: CallOptions = {},
  ): Promise<CreatedKeyObject> {
    const body: CreateKeyRequest = {
      name: key.name,
      scopes: key.scopes,
      ...(key.entity === undefined ? {} : { entity: key.entity }),
      ...(key.expiresAt === undefined ? {} : { expires_at: Math.floor(key.expiresAt.getTime() / 1000) }),
    };
    return await this.#connection.call('POST', '/keys', { ...options, body });
  }

  /** Oldest first, revoked and expired ones included. */
  async list(options: CallOptions = {}): Promise<ApiKeyObject[]> {
    return (await this.#connection.call<ApiKeyList>('GET', '/keys', options)).data;
  }

  /** Ends a key within a second, and with it the answers that it is being sent. Revoking a revoked key changes nothing. */
  async revoke(keyId: string, options: CallOptions = {}): Promise<ApiKeyObject> {
    return await this.#connection.call('DELETE', `/keys/${encodeURIComponent(keyId)}`, options);
  }
}
