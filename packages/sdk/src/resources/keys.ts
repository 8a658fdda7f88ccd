import type {
  ApiKeyList,
  ApiKeyObject,
  CreatedKeyObject,
  CreateKeyRequest,
  UpdateKeyRequest,
} from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { path } from '../http/query.ts';

/** API keys. Every call needs a key with the scope `admin`. */
export class Keys {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Creates a key. Repeated only if the service refused the first request: a repeated answer lacks the
   * secret.
   *
   * @returns the key with its `secret`, which no other call returns
   */
  async create(body: CreateKeyRequest, options: CallOptions = {}): Promise<CreatedKeyObject> {
    return await this.#connection.json('POST', '/v1/keys', { ...options, body, repeat: 'refused' });
  }

  /** Keys, oldest first, including revoked and expired ones. */
  async list(options: CallOptions = {}): Promise<ApiKeyList> {
    return await this.#connection.json('GET', '/v1/keys', options);
  }

  /** Changes the limits of a key named in `body.limits`; null removes one. Applies from its next request. */
  async update(keyId: string, body: UpdateKeyRequest, options: CallOptions = {}): Promise<ApiKeyObject> {
    return await this.#connection.json('POST', path`/v1/keys/${keyId}`, { ...options, body });
  }

  /**
   * Revokes a key. Takes effect within a second and ends its streams. Revoking a revoked key changes nothing.
   */
  async revoke(keyId: string, options: CallOptions = {}): Promise<ApiKeyObject> {
    return await this.#connection.json('DELETE', path`/v1/keys/${keyId}`, options);
  }
}
