import type { CreateSessionRequest, SessionLinkObject, SessionObject } from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';

/** Browsers that are signed in, by a cookie. Sent a second time only when the service refused the first. */
export class Sessions {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Who this browser is signed in as. */
  async retrieve(options: CallOptions = {}): Promise<SessionObject> {
    return await this.#connection.json('GET', '/v1/session', options);
  }

  /** Signs this browser in, with a key or the code of a link. @throws {AuthenticationError} when it is not valid */
  async create(body: CreateSessionRequest, options: CallOptions = {}): Promise<SessionObject> {
    return await this.#connection.json('POST', '/v1/session', { ...options, body, repeat: 'refused' });
  }

  /** Signs this browser out. */
  async delete(options: CallOptions = {}): Promise<SessionObject> {
    return await this.#connection.json('DELETE', '/v1/session', { ...options, repeat: 'refused' });
  }

  /** A link that signs a browser in with the rights of the key, once. */
  async createLink(options: CallOptions = {}): Promise<SessionLinkObject> {
    return await this.#connection.json('POST', '/v1/session-links', { ...options, repeat: 'refused' });
  }
}
