import { randomUUID } from 'node:crypto';
import type { Sql } from './contract/sql.ts';
import { type DatabaseCall, MeasuredSql } from './drivers/measured-sql.ts';
import { type Access, accessTo } from './parts/access.ts';
import { sqlArtifacts } from './parts/artifacts/sql-artifacts.ts';
import { sqlCheckpointRetention } from './parts/checkpoints/sql-checkpoint-retention.ts';
import { sqlCheckpoints } from './parts/checkpoints/sql-checkpoints.ts';
import { ChoiceRecordBuffer } from './parts/choice-records/choice-record-buffer.ts';
import type { ChoiceRecordLimits } from './parts/choice-records/choice-records.ts';
import { type SqlClock, sqlClock } from './parts/clock/sql-clock.ts';
import { databaseState } from './parts/database.ts';
import { sqlFeed } from './parts/feed/sql-feed.ts';
import { sqlFiles } from './parts/files/sql-files.ts';
import { RequestsInProgress } from './parts/idempotency/requests-in-progress.ts';
import { sqlJobs } from './parts/jobs/sql-jobs.ts';
import { ConversationStore } from './parts/kept-answers/conversation-store.ts';
import type { ConversationLimits } from './parts/kept-answers/conversations.ts';
import { KeptAnswerStore } from './parts/kept-answers/kept-answer-store.ts';
import type { KeptAnswerLimits } from './parts/kept-answers/kept-answers.ts';
import { sqlKeys } from './parts/keys/sql-keys.ts';
import { sqlSignIns } from './parts/keys/sql-sign-ins.ts';
import { sqlMembers } from './parts/members/sql-members.ts';
import { removeDeletedRows, sqlModels } from './parts/models/sql-models.ts';
import { sqlPulls } from './parts/pulls/sql-pulls.ts';
import { sqlRuns } from './parts/runs/sql-runs.ts';
import type { Store } from './parts/store.ts';
import { sqlTrajectories } from './parts/trajectories/sql-trajectories.ts';
import { sqlAdapters } from './parts/transfers/sql-adapters.ts';
import { sqlExports } from './parts/transfers/sql-exports.ts';
import { sqlUsage } from './parts/usage/sql-usage.ts';

const DELETED_MODEL_LIFETIME_MS = 7 * 24 * 3600 * 1000;
/** Lifetime of the events that the feed refers to. */
const FEED_LIFETIME_MS = DELETED_MODEL_LIFETIME_MS;
/** Deleted models whose last rows are removed per transaction. */
const MODELS_AT_ONCE = 10;
/** A bucket refills within a minute; a debt that lasts longer than this means a limit near zero. */
const UNUSED_BUDGET_LIFETIME_MS = 24 * 3600 * 1000;

export interface SqlStoreOptions {
  /** Milliseconds since the epoch, default `Sql.now`. */
  clock?: () => number;
  /** See `Store.instanceId`. Default: a random UUID, which has no successor. */
  instanceId?: string;
  /** Receives each call of the database. Default: none. */
  onCall?: (call: DatabaseCall) => void;
  /** Time for which keys are used as last read while the database is away, ms. Default 0. */
  outageMs?: number;
  choiceRecords?: Partial<ChoiceRecordLimits>;
  keptAnswers?: Partial<KeptAnswerLimits>;
  conversations?: Partial<ConversationLimits>;
}

/**
 * `Store` on an SQL database that several processes may have open. Each writing call is one short
 * transaction.
 */
export class SqlStore implements Store {
  readonly instanceId: string;
  readonly keys: Store['keys'];
  readonly signIns: Store['signIns'];
  readonly models: Store['models'];
  readonly checkpoints: Store['checkpoints'];
  readonly retention: Store['retention'];
  readonly jobs: Store['jobs'];
  readonly runs: Store['runs'];
  readonly feed: Store['feed'];
  readonly trajectories: Store['trajectories'];
  readonly artifacts: Store['artifacts'];
  readonly pulls: Store['pulls'];
  readonly exports: Store['exports'];
  readonly adapters: Store['adapters'];
  readonly idempotency: Store['idempotency'];
  readonly usage: Store['usage'];
  readonly choiceRecords: Store['choiceRecords'];
  readonly members: Store['members'];
  readonly files: Store['files'];
  readonly clock: Store['clock'];
  readonly database: Store['database'];
  readonly keptAnswers: Store['keptAnswers'];
  readonly conversations: Store['conversations'];
  readonly #access: Access;
  readonly #clock: SqlClock;
  readonly #choiceRecords: ChoiceRecordBuffer;
  readonly #conversations: ConversationStore;
  readonly #keptAnswers: KeptAnswerStore;
  readonly #requests: RequestsInProgress;

  /** @param database closed with the store */
  constructor(database: Sql, options: SqlStoreOptions = {}) {
    const { clock: now = () => database.now, instanceId = randomUUID(), onCall, outageMs = 0 } = options;
    const sql = onCall === undefined ? database : new MeasuredSql(database, onCall);
    const requests = new RequestsInProgress(sql, now, instanceId);
    const access = accessTo(sql, { instanceId, now, requests });
    const clock = sqlClock(access);
    const limits = options.keptAnswers;
    this.instanceId = instanceId;
    this.#access = access;
    this.#clock = clock;
    this.#requests = requests;
    this.#choiceRecords = new ChoiceRecordBuffer(sql, now, options.choiceRecords);
    access.flushes.push(() => this.#choiceRecords.flush());
    this.#conversations = new ConversationStore(sql, { clock: now, requests, limits: options.conversations });
    const conversations = this.#conversations;
    this.#keptAnswers = new KeptAnswerStore(sql, { clock: now, owner: instanceId, limits, conversations, requests });
    this.keys = sqlKeys(access, clock, outageMs);
    this.signIns = sqlSignIns(access, clock);
    this.models = sqlModels(access, { choiceRecords: this.#choiceRecords, keptAnswers: this.#keptAnswers });
    this.checkpoints = sqlCheckpoints(access);
    this.retention = sqlCheckpointRetention(access);
    this.jobs = sqlJobs(access);
    this.runs = sqlRuns(access);
    this.feed = sqlFeed(access);
    this.trajectories = sqlTrajectories(access);
    this.artifacts = sqlArtifacts(access);
    this.pulls = sqlPulls(access);
    this.exports = sqlExports(access);
    this.adapters = sqlAdapters(access);
    this.idempotency = requests;
    this.usage = sqlUsage(access);
    this.choiceRecords = this.#choiceRecords;
    this.members = sqlMembers(access);
    this.files = sqlFiles(access);
    this.clock = clock;
    this.database = databaseState(sql);
    this.keptAnswers = this.#keptAnswers;
    this.conversations = this.#conversations;
  }

  async recoverAfterRestart(): Promise<{ numJobs: number; numRequests: number }> {
    const { instanceId, write } = this.#access;
    return await write(async (tables) => {
      await this.#clock.learn(tables);
      await tables.announcedKeys.releaseOf(instanceId);
      await tables.keyBudgets.removeOf(instanceId);
      await tables.keptAnswers.releaseOf(instanceId);
      return {
        numJobs: await tables.jobs.requeueHeldBy(instanceId),
        numRequests: await tables.idempotency.dropInProgress(instanceId),
      };
    });
  }

  async purgeExpired(now: number = this.#clock.now()): Promise<{ numModels: number; numRequests: number }> {
    const { sql, write } = this.#access;
    await removeDeletedRows(this.#access);
    const numRequests = await write(async (tables) => {
      await this.#choiceRecords.purge(tables, now);
      await tables.signIns.purge(now);
      await tables.members.purge(now);
      await tables.keyBudgets.purge(now, now - UNUSED_BUDGET_LIFETIME_MS);
      await tables.feed.purge(now - FEED_LIFETIME_MS);
      return await tables.idempotency.purge(now);
    });
    await this.#keptAnswers.purge(now);
    await this.#conversations.purge(now);
    let numModels = 0;
    for (let numPurged = MODELS_AT_ONCE; numPurged === MODELS_AT_ONCE; numModels += numPurged)
      numPurged = await write(({ models }) => models.purge(now - DELETED_MODEL_LIFETIME_MS, MODELS_AT_ONCE));
    await sql.reclaimSpace();
    return { numModels, numRequests };
  }

  /** Writes pending usage and records, and closes the database. A second call does nothing. */
  async close(): Promise<void> {
    this.#requests.close();
    const flushed = await Promise.allSettled(this.#access.flushes.map((flush) => flush()));
    await this.#access.sql.close();
    for (const outcome of flushed) if (outcome.status === 'rejected') throw outcome.reason;
  }
}
