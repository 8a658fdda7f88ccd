/** Token usage of keys. */
export interface UsageRecords {
  /**
   * Resolves once every process sees the usage: from then on the end of this process loses nothing, a power
   * failure may. If the store has a problem, it resolves after half a second, or at once while the problem
   * lasts, and the usage is written later.
   */
  record(usage: Usage): Promise<void>;
  /**
   * Totals by project, model and kind for `from <= time < to`, over all processes. First writes this
   * process's pending usage. Usage merged by `merge` counts at the start of its hour (UTC), so bounds at
   * whole hours stay exact.
   */
  sum(query: { entityId?: string; from?: number; to?: number }): Promise<UsageTotal[]>;
  /**
   * Usage for `from <= time < to` that matches the filter, grouped by these parts and in their order, at most
   * `limit` rows. Bounds as for `sum`.
   */
  group(query: UsageQuery): Promise<UsageGroup[]>;
  /**
   * Merges up to `limit` usage records from before the hour of that time into one per hour, key, project,
   * model and kind.
   *
   * @returns the number merged; 0 if none is left
   */
  merge(before: number, limit: number): Promise<number>;
}

export type UsageKind = 'chat' | 'completion' | 'training';

/** Tokens of one request, or (from `sum`) of many. */
export interface Usage {
  keyId: string;
  entityId: string;
  project: string | null;
  model: string;
  kind: UsageKind;
  promptTokens: number;
  completionTokens: number;
}

/** Dimensions to group usage by. A day starts at 00:00 UTC. */
export type UsagePart = 'project' | 'key' | 'model' | 'kind' | 'day';

export interface UsageQuery {
  readonly entityId: string;
  readonly by: readonly UsagePart[];
  /** Milliseconds since the epoch; `to` is exclusive. */
  readonly from: number;
  readonly to: number;
  readonly limit: number;
  /** Count the steps of a model as one. Default false. */
  readonly foldsSteps?: boolean;
  /** Null: of no project. Default: of any. */
  readonly project?: string | null | undefined;
  /** Default: of any key. */
  readonly keyIds?: readonly string[] | undefined;
  /** Part of the model's name, in any case. Default: of any model. */
  readonly modelText?: string | undefined;
  /** Default: of any kind. */
  readonly kinds?: readonly UsageKind[] | undefined;
}

/** Summed usage; dimensions not grouped by are absent. */
export interface UsageGroup {
  /** Named in the requests, or else that of the trained model; null: neither. */
  project?: string | null;
  keyId?: string;
  /** Without its step if steps are folded. */
  model?: string;
  /** Steps folded into the row; 0 for base models, and for training. */
  numSteps?: number;
  kind?: UsageKind;
  /** Start of the day, milliseconds since the epoch. */
  day?: number;
  numRequests: number;
  promptTokens: number;
  completionTokens: number;
}

export interface UsageTotal {
  entityId: string;
  project: string | null;
  model: string;
  kind: UsageKind;
  numRequests: number;
  promptTokens: number;
  completionTokens: number;
}
