import type {
  ApiKeyList,
  ApiKeyObject,
  CreatedKeyObject,
  CreateKeyRequest,
  UpdateKeyRequest,
} from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { path } from '../http/query.ts';

/** Who may use the service. Every call takes a key with the scope `admin`. */
export class Keys {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Makes a key. Sent a second time only when the service refused the first: a repeated answer has no secret any more.
   *
   * @returns the key with its `secret`, which is shown this once
   */
  async create(body: CreateKeyRequest, options: CallOptions = {}): Promise<CreatedKeyObject> {
    return await this.#connection.json('POST', '/v1/keys', { ...options, body, repeat: 'refused' });
  }

  /** Oldest first, revoked and expired ones included. */
  async list(options: CallOptions = {}): Promise<ApiKeyList> {
    return await this.#connection.json('GET', '/v1/keys', options);
  }

  /** Changes limits of a key, those that `body.limits` names; null takes one away. They count for its next request. */
  async update(keyId: string, body: UpdateKeyRequest, options: CallOptions = {}): Promise<ApiKeyObject> {
    return await this.#connection.json('POST', path`/v1/keys/${keyId}`, { ...options, body });
  }

  /** Ends a key within a second, and with it the answers that it is being sent. Revoking a revoked key changes nothing. */
  async revoke(keyId: string, options: CallOptions = {}): Promise<ApiKeyObject> {
    return await this.#connection.json('DELETE', path`/v1/keys/${keyId}`, options);
  }
}
