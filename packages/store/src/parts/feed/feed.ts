/** Events of models and jobs, in one order over all processes. */
export interface Feed {
  /** All events, oldest first; kept for a week. */
  list(query: FeedQuery): Promise<FeedItem[]>;
  /** Position of the newest item of all entities; 0 before the first. */
  lastPosition(): Promise<number>;
  /**
   * Calls `wake` soon after this process has added to the feed or registered a member; if the database has
   * notifications, after any process has. A call may come late, twice or never: it is a hint to read the
   * feed. @returns stops watching
   */
  watch(wake: () => void): () => void;
}

/** Types of events other than those of jobs, which keep their own types. */
export type FeedType =
  | 'model_created'
  | 'model_labelled'
  | 'model_deleted'
  | 'checkpoint_created'
  | 'checkpoints_deleted'
  | 'log_recorded'
  | 'job_queued'
  | 'job_started'
  | 'job_paused'
  | 'job_resumed';

/** An event, in the order of all events. */
export interface FeedItem {
  /** Only grows: a later commit has a larger one. */
  position: number;
  entityId: string;
  type: FeedType | (string & {});
  modelId: string | null;
  jobId: string | null;
  /** Payload as clients read it (wire names). */
  data: Record<string, unknown>;
  createdAt: number;
}

export interface FeedQuery {
  /** Default: all entities. */
  entityId?: string;
  /** Position of the last item already seen; default: start at the oldest kept, or at the newest. */
  after?: number;
  /** 1..1000, default 100. */
  limit?: number;
  modelId?: string;
  /** Default `asc`: the oldest first. */
  order?: 'asc' | 'desc';
}
