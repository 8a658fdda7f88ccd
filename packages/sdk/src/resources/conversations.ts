import type {
  ConversationItemList,
  ConversationItemObject,
  ConversationItemQuery,
  ConversationObject,
  CreateConversationRequest,
  CreateItemsRequest,
  DeletedConversation,
  UpdateConversationRequest,
} from '@trainyard/protocol';

import type { CallOptions, Connection } from '../http/connection.ts';
import { path } from '../http/query.ts';

/** Conversations that responses continue through `conversation`, in the form of OpenAI's API. */
export class Conversations {
  readonly #connection: Connection;
  readonly items: ConversationItems;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.items = new ConversationItems(connection);
  }

  async create(body: CreateConversationRequest = {}, options: CallOptions = {}): Promise<ConversationObject> {
    return await this.#connection.json('POST', '/v1/conversations', { ...options, body });
  }

  async retrieve(id: string, options: CallOptions = {}): Promise<ConversationObject> {
    return await this.#connection.json('GET', path`/v1/conversations/${id}`, options);
  }

  async update(id: string, body: UpdateConversationRequest, options: CallOptions = {}): Promise<ConversationObject> {
    return await this.#connection.json('POST', path`/v1/conversations/${id}`, { ...options, body, repeat: 'always' });
  }

  /** Deletes a conversation with its items. */
  async delete(id: string, options: CallOptions = {}): Promise<DeletedConversation> {
    return await this.#connection.json('DELETE', path`/v1/conversations/${id}`, { ...options, repeat: 'refused' });
  }
}

class ConversationItems {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Adds up to 20 items. @returns the items as listed */
  async create(id: string, body: CreateItemsRequest, options: CallOptions = {}): Promise<ConversationItemList> {
    return await this.#connection.json('POST', path`/v1/conversations/${id}/items`, { ...options, body });
  }

  async list(
    id: string,
    query: Omit<ConversationItemQuery, 'include[]'> = {},
    options: CallOptions = {},
  ): Promise<ConversationItemList> {
    return await this.#connection.json('GET', path`/v1/conversations/${id}/items`, { ...options, query });
  }

  async retrieve(id: string, itemId: string, options: CallOptions = {}): Promise<ConversationItemObject> {
    return await this.#connection.json('GET', path`/v1/conversations/${id}/items/${itemId}`, options);
  }

  async delete(id: string, itemId: string, options: CallOptions = {}): Promise<ConversationObject> {
    const place = path`/v1/conversations/${id}/items/${itemId}`;
    return await this.#connection.json('DELETE', place, { ...options, repeat: 'refused' });
  }
}
