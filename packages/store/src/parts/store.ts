import type { Artifacts } from './artifacts/artifacts.ts';
import type { CheckpointRetention } from './checkpoints/checkpoint-retention.ts';
import type { Checkpoints } from './checkpoints/checkpoints.ts';
import type { ChoiceRecords } from './choice-records/choice-records.ts';
import type { StoreClock } from './clock/clock.ts';
import type { DatabaseState } from './database.ts';
import type { Feed } from './feed/feed.ts';
import type { Files } from './files/files.ts';
import type { Idempotency } from './idempotency/idempotency.ts';
import type { Jobs } from './jobs/jobs.ts';
import type { Conversations } from './kept-answers/conversations.ts';
import type { KeptAnswers } from './kept-answers/kept-answers.ts';
import type { Keys } from './keys/keys.ts';
import type { SignIns } from './keys/sign-ins.ts';
import type { Members } from './members/members.ts';
import type { Models } from './models/models.ts';
import type { Runs } from './runs/runs.ts';
import type { Trajectories } from './trajectories/trajectories.ts';
import type { Adapters } from './transfers/adapters.ts';
import type { Pulls } from './pulls/pulls.ts';
import type { Exports } from './transfers/exports.ts';
import type { UsageRecords } from './usage/usage.ts';

/**
 * Durable state. Every write is one transaction: when the promise resolves it is on disk; when it rejects,
 * nothing of it is (after `store.unavailable`, an I/O error, it may be: check with `files.isNamed`). While another
 * process holds the database, a call waits without blocking this thread, and rejects with `store.busy` after
 * too long.
 *
 * Unknown and deleted ids give null (or an empty page), so that a caller cannot distinguish them. Expected
 * conflicts are tagged results; everything else is a `StoreError`. Metrics must be finite numbers (asserted).
 */
export interface Store {
  /**
   * Name of this process among all that share the store, and of its successors on the same data folder: the
   * next takes up the work that one left.
   */
  readonly instanceId: string;

  readonly keys: Keys;
  readonly signIns: SignIns;
  readonly models: Models;
  readonly checkpoints: Checkpoints;
  readonly retention: CheckpointRetention;
  readonly jobs: Jobs;
  readonly runs: Runs;
  readonly feed: Feed;
  readonly trajectories: Trajectories;
  readonly artifacts: Artifacts;
  readonly pulls: Pulls;
  readonly exports: Exports;
  readonly adapters: Adapters;
  readonly idempotency: Idempotency;
  readonly usage: UsageRecords;
  readonly choiceRecords: ChoiceRecords;
  readonly members: Members;
  readonly files: Files;
  readonly clock: StoreClock;
  readonly database: DatabaseState;
  readonly keptAnswers: KeptAnswers;
  readonly conversations: Conversations;

  /**
   * Recovers the unfinished work of the last run of this instance (`instanceId`), once, before the process takes
   * requests; touches nothing of others. Running jobs and exports return to the queue (the attempt counts);
   * idempotency records in progress are dropped, so their repeats run; files announced but not named become
   * orphans. Remains of an instance that never returns expire with its leases, and by age.
   */
  recoverAfterRestart(): Promise<{ numJobs: number; numRequests: number }>;
  /**
   * Removes expired idempotency records, records of choices, kept answers, conversations and members, and the
   * remains of models deleted more than a week ago. @param now default: the clock
   */
  purgeExpired(now?: number): Promise<{ numModels: number; numRequests: number }>;
  close(): Promise<void>;
}
