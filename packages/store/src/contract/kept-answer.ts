/** Owner of kept answers and conversations: nothing is found from another entity or another project. */
export interface KeptScope {
  readonly entityId: string;
  /** As requests name it; empty if they name none. */
  readonly project: string;
}

export const LIVE_ANSWER_STATUSES = ['queued', 'in_progress'] as const;
export const ENDED_ANSWER_STATUSES = ['completed', 'incomplete', 'failed', 'cancelled'] as const;
export type EndedAnswerStatus = (typeof ENDED_ANSWER_STATUSES)[number];
export type KeptAnswerStatus = (typeof LIVE_ANSWER_STATUSES)[number] | EndedAnswerStatus;

/** One answer as it is now. */
export interface AnswerState<Status extends KeptAnswerStatus = KeptAnswerStatus> {
  readonly status: Status;
  /** JSON of the answer, as clients read it. */
  readonly answer: string;
  /** Ids of the output items, by which `findItems` finds the answer. */
  readonly itemIds: readonly string[];
}

export interface NewKeptAnswer extends KeptScope, AnswerState {
  /** An ended answer with this id is replaced. */
  readonly id: string;
  readonly keyId: string;
  /** The trained model; null for a base model. */
  readonly modelId: string | null;
  /** JSON array: all items of the prompt, those of earlier turns included, each with an id. */
  readonly input: string;
  /** How long this process holds a live answer without a heartbeat, ms. Null for an answer that has ended. */
  readonly leaseMs: number | null;
  /** Items that a conversation gains in the same transaction. Default: none. */
  readonly conversation?: { readonly id: string; readonly items: readonly NewConversationItem[] };
}

export interface KeptAnswer {
  readonly id: string;
  readonly status: KeptAnswerStatus;
  readonly answer: string;
  readonly input: string;
  /** ms since the epoch. */
  readonly createdAt: number;
}

/** `model_deleted`: nothing was kept. `busy`: a live answer has this id. `no_conversation`: the conversation does not exist; nothing was kept. */
export type KeepResult = 'kept' | 'model_deleted' | 'busy' | 'no_conversation';

export interface NewConversationItem {
  readonly id: string;
  /** JSON of the item. */
  readonly item: string;
}

export interface Conversation {
  readonly id: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly createdAt: number;
}

export interface KeptAnswerLimits {
  /** How long answers are kept after they were made, and conversations after their last change, ms. Default 24 hours. */
  lifetimeMs: number;
  /** Largest total of answers and conversations per entity, bytes; the oldest go first. Default 256 MB. */
  maxBytes: number;
}

export const DEFAULT_KEPT_ANSWER_LIMITS: KeptAnswerLimits = { lifetimeMs: 24 * 3600 * 1000, maxBytes: 256_000_000 };

/** Kept answers. Unknown ids and ids of other scopes give null or false. A write survives the end of the process; a power failure may take the last ones. */
export interface KeptAnswers {
  keep(answer: NewKeptAnswer): Promise<KeepResult>;
  find(scope: KeptScope, id: string): Promise<KeptAnswer | null>;
  /** Answers that have one of these output items; at most one per item. */
  findItems(scope: KeptScope, itemIds: readonly string[]): Promise<KeptAnswer[]>;
  /** @returns whether there was one. A live answer goes too, and its owner ends it. */
  delete(scope: KeptScope, id: string): Promise<boolean>;
  /** Number and bytes of answers and conversations of all entities. */
  count(): Promise<{ numAnswers: number; numConversations: number; sizeBytes: number }>;
}
