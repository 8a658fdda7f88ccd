import type { CreateSessionRequest, SessionLinkObject, SessionObject } from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';

/** Browser sessions, by a cookie. Repeated only if the service refused the first request. */
export class Sessions {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Identity of this browser's session. */
  async retrieve(options: CallOptions = {}): Promise<SessionObject> {
    return await this.#connection.json('GET', '/v1/session', options);
  }

  /**
   * Signs this browser in with a key or the code of a link. @throws {AuthenticationError} if it is not valid
   */
  async create(body: CreateSessionRequest, options: CallOptions = {}): Promise<SessionObject> {
    return await this.#connection.json('POST', '/v1/session', { ...options, body, repeat: 'refused' });
  }

  /** Signs this browser out. */
  async delete(options: CallOptions = {}): Promise<SessionObject> {
    return await this.#connection.json('DELETE', '/v1/session', { ...options, repeat: 'refused' });
  }

  /** Creates a link that signs a browser in once, with the rights of the key. */
  async createLink(options: CallOptions = {}): Promise<SessionLinkObject> {
    return await this.#connection.json('POST', '/v1/session-links', { ...options, repeat: 'refused' });
  }
}
