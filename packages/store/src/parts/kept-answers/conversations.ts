import type { CompletesWith, IdempotentAnswer } from '../idempotency/idempotency.ts';
import type { BeforeUnpacking, KeptScope } from './kept-scope.ts';

/** Name of a conversation within its scope. */
export interface ConversationKey extends KeptScope {
  readonly id: string;
}

export interface Conversation extends ConversationKey {
  /** JSON object, as clients read it. */
  readonly metadata: string;
  /** ms since the epoch. */
  readonly createdAt: number;
}

export interface ConversationItem {
  /** Unique in its conversation. It takes precedence over an id within `item`. */
  readonly id: string;
  /** JSON object. */
  readonly item: string;
}

export interface NewConversation extends ConversationKey {
  readonly metadata: string;
  readonly items: readonly ConversationItem[];
}

export interface ConversationTurn {
  readonly conversation: ConversationKey;
  readonly items: readonly ConversationItem[];
  /**
   * Id of an item that only this turn can have. While the conversation has it, writing the turn again has no
   * effect.
   */
  readonly ownItemId?: string | undefined;
}

/**
 * Only `added` adds anything. `taken`: an item's id exists in the conversation. `full`: it would exceed its
 * limits.
 */
export type AddResult = 'added' | 'unknown' | 'taken' | 'full';

export interface ConversationPageQuery {
  readonly after?: string | undefined;
  readonly limit: number;
  /** True for oldest first, false for newest first. */
  readonly isAscending: boolean;
}

export interface ConversationPage {
  readonly items: readonly ConversationItem[];
  readonly hasMore: boolean;
}

export interface ReadOptions {
  readonly before?: BeforeUnpacking | undefined;
  /** True if the conversation lives on from this read. Default true. */
  readonly isUse?: boolean | undefined;
}

export interface ConversationLimits {
  /** Lifetime of a conversation after its last use, ms. Default 24 hours. */
  lifetimeMs: number;
  /**
   * Maximum total of conversations per entity, bytes; the least recently used are removed first. Default 256
   * MB.
   */
  maxBytes: number;
  /** Maximum items per conversation. Default 10,000. */
  maxItems: number;
  /** Maximum bytes of a conversation's items, as text. Default 8 MB, the maximum request body. */
  maxTextBytes: number;
}

export const DEFAULT_CONVERSATION_LIMITS: ConversationLimits = {
  lifetimeMs: 24 * 3600 * 1000,
  maxBytes: 256_000_000,
  maxItems: 10_000,
  maxTextBytes: 8_000_000,
};

/**
 * Conversations: ordered items, to which answers add turns. Unknown ids and ids of other scopes give null,
 * false or `unknown`. Items added together stay adjacent, also while other processes add some.
 */
export interface Conversations {
  readonly limits: ConversationLimits;
  /** @param completes answer to the request, kept if the conversation was created */
  create(
    conversation: NewConversation,
    completes?: CompletesWith<Conversation>,
  ): Promise<Conversation | Exclude<AddResult, 'added' | 'unknown'>>;
  find(key: ConversationKey): Promise<Conversation | null>;
  setMetadata(key: ConversationKey, metadata: string): Promise<Conversation | null>;
  delete(key: ConversationKey): Promise<boolean>;
  /** @param completes answer to the request, kept if the items were added */
  add(key: ConversationKey, items: readonly ConversationItem[], completes?: IdempotentAnswer): Promise<AddResult>;
  /**
   * Adds the items of an answer, also above the limits: they are computed already, and the next request is
   * refused. An item whose id is taken gets a new one.
   * @param completes answer to the request, kept in any case
   * @returns false for an unknown conversation
   */
  append(turn: ConversationTurn, completes?: IdempotentAnswer): Promise<boolean>;
  /** Reads all items in order. */
  readAll(key: ConversationKey, options?: ReadOptions): Promise<ConversationItem[] | null>;
  /** @throws {StoreError} `store.cursor_unknown` */
  listItems(
    key: ConversationKey,
    query: ConversationPageQuery,
    before?: BeforeUnpacking,
  ): Promise<ConversationPage | null>;
  findItem(key: ConversationKey, itemId: string, before?: BeforeUnpacking): Promise<ConversationItem | null>;
  /** Finds the newest item with this id in any conversation of the scope. */
  findItemOfAny(scope: KeptScope, itemId: string, before?: BeforeUnpacking): Promise<ConversationItem | null>;
  /** @returns the conversation without the item */
  deleteItem(key: ConversationKey, itemId: string): Promise<Conversation | null>;
  /** Number and bytes of the conversations of all entities. */
  count(): Promise<{ numConversations: number; sizeBytes: number }>;
}
