import type { ConversationTurn } from './conversations.ts';
import type { CompletesWith, IdempotentAnswer } from '../idempotency/idempotency.ts';
import type { BeforeUnpacking, KeptScope } from './kept-scope.ts';

export const LIVE_ANSWER_STATUSES = ['queued', 'in_progress'] as const;
export const ENDED_ANSWER_STATUSES = ['completed', 'incomplete', 'failed', 'cancelled'] as const;
export type EndedAnswerStatus = (typeof ENDED_ANSWER_STATUSES)[number];
export type LiveAnswerStatus = (typeof LIVE_ANSWER_STATUSES)[number];
export type KeptAnswerStatus = LiveAnswerStatus | EndedAnswerStatus;

/** Name of an answer within its scope. */
export interface AnswerKey extends KeptScope {
  readonly id: string;
}

export interface AnswerState<Status extends KeptAnswerStatus = KeptAnswerStatus> {
  readonly status: Status;
  /** JSON of the answer, as clients read it. */
  readonly answer: string;
  /** Ids of the output items; `findItem` finds the answer by them. */
  readonly itemIds: readonly string[];
}

export interface NewKeptAnswer<Status extends KeptAnswerStatus = EndedAnswerStatus>
  extends KeptScope, AnswerState<Status> {
  /** Id of the answer. Replaces an ended answer with the same id. */
  readonly id: string;
  readonly keyId: string;
  /** The trained model; null for a base model. */
  readonly modelId: string | null;
  /** JSON array: all items of the prompt, those of earlier turns included, each with an id. */
  readonly input: string;
}

export interface NewLiveAnswer extends NewKeptAnswer<LiveAnswerStatus> {
  /** Time for which this process holds it without a heartbeat, ms. */
  readonly leaseMs: number;
  /** First events, if events are kept. */
  readonly events?: readonly string[] | undefined;
}

export interface KeptAnswer extends AnswerKey {
  readonly status: KeptAnswerStatus;
  readonly answer: string;
  /** ms since the epoch. */
  readonly createdAt: number;
}

/** An answer with the items of its prompt. */
export interface WholeAnswer extends KeptAnswer {
  readonly input: string;
}

export type AnswerText = Pick<KeptAnswer, 'id' | 'answer'>;

/** Events of an answer's stream: JSON objects, numbered without gaps. */
export interface AnswerEvents {
  readonly firstNumber: number;
  readonly events: readonly string[];
}

/** One computation of an answer. A later answer with the same id is another one. */
export interface LiveAnswer extends AnswerKey {
  /** Unique; never used again. */
  readonly row: number;
}

export interface LostAnswer extends LiveAnswer {
  /** End of the lease, ms since the epoch; 0 for an answer that its process gave up when it restarted. */
  readonly leaseEndedAt: number;
}

export interface AnswerStatus {
  readonly status: KeptAnswerStatus;
  /** Null unless the answer is live and its lease is over. */
  readonly lost: LostAnswer | null;
}

/**
 * Only `kept` stores anything. `busy`: a live answer has this id. `full`: together with the live answers
 * of its entity it exceeds the limit.
 */
export type KeepResult = 'kept' | 'model_deleted' | 'busy' | 'full';

export interface KeptAnswerLimits {
  /** Lifetime of an answer after its creation, ms. Default 24 hours. */
  lifetimeMs: number;
  /** Maximum total of answers per entity, bytes; the oldest are removed first. Default 256 MB. */
  maxBytes: number;
}

export const DEFAULT_KEPT_ANSWER_LIMITS: KeptAnswerLimits = { lifetimeMs: 24 * 3600 * 1000, maxBytes: 256_000_000 };

/**
 * Kept answers. Unknown ids and ids of other scopes give null or false. A write survives the end of the
 * process; a power failure may lose the last ones.
 */
export interface KeptAnswers {
  /**
   * @param turn added to its conversation in the same transaction, even if the answer is not kept
   * @param completes answer to the request, kept with any result
   */
  keep(answer: NewKeptAnswer, turn?: ConversationTurn, completes?: CompletesWith<KeepResult>): Promise<KeepResult>;
  /**
   * Starts to keep an answer that this process computes.
   * @param completes answer to the request, kept if this process computes it
   */
  begin(answer: NewLiveAnswer, completes?: IdempotentAnswer): Promise<LiveAnswer | Exclude<KeepResult, 'kept'>>;
  find(scope: KeptScope, id: string, before?: BeforeUnpacking): Promise<KeptAnswer | null>;
  /** The answer with its input, which may be a hundred times as long. */
  findWhole(scope: KeptScope, id: string, before?: BeforeUnpacking): Promise<WholeAnswer | null>;
  /** Finds the newest answer that has this output item. */
  findItem(scope: KeptScope, itemId: string, before?: BeforeUnpacking): Promise<AnswerText | null>;
  /** @returns true if there was one. A live answer is deleted too, and its owner ends it. */
  delete(scope: KeptScope, id: string): Promise<boolean>;
  /** Cheaper than `find`. */
  status(key: AnswerKey): Promise<AnswerStatus | null>;
  /**
   * Writes a new state, events or both of a live answer of this process, and with its end the turn of its
   * conversation.
   * @returns false if it has ended or is gone: nothing was written
   */
  update(
    answer: LiveAnswer,
    change: { readonly state?: AnswerState; readonly events?: AnswerEvents; readonly turn?: ConversationTurn },
  ): Promise<boolean>;
  /**
   * Ends a live answer of any process.
   * @param lost only if this lease has not been renewed
   * @returns false if it has ended or is gone
   */
  end(key: AnswerKey, state: AnswerState<EndedAnswerStatus>, lost?: LostAnswer): Promise<boolean>;
  /** Live answers that this process computes. */
  listOwn(): Promise<LiveAnswer[]>;
  /** Heartbeat for answers of this process. Has no effect on those that have ended or that it gave up. */
  renew(answers: readonly LiveAnswer[], leaseMs: number): Promise<void>;
  listLost(limit: number): Promise<LostAnswer[]>;
  /**
   * Up to `limit` batches with events from this number on, in order. The first may start with earlier events;
   * if there are no such events, it is the last batch of all.
   */
  readEvents(key: AnswerKey, from: number, limit: number): Promise<AnswerEvents[]>;
  /** Number and bytes of the answers of all entities. */
  count(): Promise<{ numAnswers: number; sizeBytes: number }>;
}
