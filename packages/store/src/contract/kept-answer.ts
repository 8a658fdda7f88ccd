import type { ConversationTurn } from './conversation.ts';
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

/** One answer as it is now. */
export interface AnswerState<Status extends KeptAnswerStatus = KeptAnswerStatus> {
  readonly status: Status;
  /** JSON of the answer, as clients read it. */
  readonly answer: string;
  /** Ids of the output items, by which `findItem` finds the answer. */
  readonly itemIds: readonly string[];
}

export interface NewKeptAnswer<Status extends KeptAnswerStatus = EndedAnswerStatus>
  extends KeptScope, AnswerState<Status> {
  /** An ended answer with this id is replaced. */
  readonly id: string;
  readonly keyId: string;
  /** The trained model; null for a base model. */
  readonly modelId: string | null;
  /** JSON array: all items of the prompt, those of earlier turns included, each with an id. */
  readonly input: string;
}

export interface NewLiveAnswer extends NewKeptAnswer<LiveAnswerStatus> {
  /** How long this process holds it without a heartbeat, ms. */
  readonly leaseMs: number;
  /** Its first events, where they are kept. */
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

/** An answer without its input. */
export type AnswerText = Pick<KeptAnswer, 'id' | 'answer'>;

/** Events of an answer's stream: JSON objects, numbered without gaps. */
export interface AnswerEvents {
  readonly firstNumber: number;
  readonly events: readonly string[];
}

/** One computation of an answer. A later answer with the same id is another one. */
export interface LiveAnswer extends AnswerKey {
  /** Never used twice. */
  readonly row: number;
}

/** A live answer whose lease is over. */
export interface LostAnswer extends LiveAnswer {
  /** The end of the lease, ms since the epoch; 0 for one that its process gave up when it started again. */
  readonly leaseEndedAt: number;
}

export interface AnswerStatus {
  readonly status: KeptAnswerStatus;
  /** Null unless it is live and its lease is over. */
  readonly lost: LostAnswer | null;
}

/** Nothing was kept but with `kept`. `busy`: a live answer has this id. `no_room`: it and the live answers of its entity are above the limit together. */
export type KeepResult = 'kept' | 'model_deleted' | 'busy' | 'no_room';

export interface KeptAnswerLimits {
  /** How long answers are kept after they were made, ms. Default 24 hours. */
  lifetimeMs: number;
  /** Largest total of answers per entity, bytes; the oldest go first. Default 256 MB. */
  maxBytes: number;
}

export const DEFAULT_KEPT_ANSWER_LIMITS: KeptAnswerLimits = { lifetimeMs: 24 * 3600 * 1000, maxBytes: 256_000_000 };

/** Kept answers. Unknown ids and ids of other scopes give null or false. A write survives the end of the process; a power failure may take the last ones. */
export interface KeptAnswers {
  /** @param turn added to its conversation in the same transaction, also if the answer is not kept */
  keep(answer: NewKeptAnswer, turn?: ConversationTurn): Promise<KeepResult>;
  /** Keeps an answer that this process computes from now on. */
  begin(answer: NewLiveAnswer): Promise<LiveAnswer | Exclude<KeepResult, 'kept'>>;
  find(scope: KeptScope, id: string): Promise<KeptAnswer | null>;
  /** The answer with its input, which may be a hundred times as long. */
  findWhole(scope: KeptScope, id: string, before?: BeforeUnpacking): Promise<WholeAnswer | null>;
  /** The newest answer that has this output item. */
  findItem(scope: KeptScope, itemId: string, before?: BeforeUnpacking): Promise<AnswerText | null>;
  /** @returns whether there was one. A live answer goes too, and its owner ends it. */
  delete(scope: KeptScope, id: string): Promise<boolean>;
  /** The status alone: cheaper than `find`. */
  status(key: AnswerKey): Promise<AnswerStatus | null>;
  /**
   * Writes a new state, events or both of a live answer that this process computes, and with its end the turn of its conversation.
   * @returns false if it has ended or is gone: nothing was written
   */
  update(
    answer: LiveAnswer,
    change: { readonly state?: AnswerState; readonly events?: AnswerEvents; readonly turn?: ConversationTurn },
  ): Promise<boolean>;
  /**
   * Ends a live answer, whoever computes it.
   * @param lost only if nothing has renewed this lease
   * @returns false if it has ended or is gone
   */
  end(key: AnswerKey, state: AnswerState<EndedAnswerStatus>, lost?: LostAnswer): Promise<boolean>;
  /** Live answers that this process computes. */
  listOwn(): Promise<LiveAnswer[]>;
  /** Heartbeat for answers that this process computes; without effect on those that have ended or that it gave up. */
  renew(answers: readonly LiveAnswer[], leaseMs: number): Promise<void>;
  /** Up to `limit` live answers whose lease is over. */
  listLost(limit: number): Promise<LostAnswer[]>;
  /** Up to `limit` batches that have events from this number on, in order. The first one may begin with earlier events; it is the last one of all where there are none. */
  readEvents(key: AnswerKey, from: number, limit: number): Promise<AnswerEvents[]>;
  /** Number and bytes of the answers of all entities. */
  count(): Promise<{ numAnswers: number; sizeBytes: number }>;
}
