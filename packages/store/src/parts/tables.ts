import { AnnouncedKeyTable } from './files/announced-key-table.ts';
import { ArtifactTable } from './artifacts/artifact-table.ts';
import { AdapterTable } from './transfers/adapter-table.ts';
import { BlobPlaceTable } from './files/blob-place-table.ts';
import { ChoiceRecordTable } from './choice-records/choice-record-table.ts';
import { CheckpointRetentionTable } from './checkpoints/checkpoint-retention-table.ts';
import { CheckpointTable } from './checkpoints/checkpoint-table.ts';
import { type Queries, Statements } from '../contract/sql.ts';
import { EventTable } from './jobs/event-table.ts';
import { ExportTable } from './transfers/export-table.ts';
import { FeedTable } from './feed/feed-table.ts';
import { IdempotencyTable } from './idempotency/idempotency-table.ts';
import { JobTable } from './jobs/job-table.ts';
import { ConversationTable } from './kept-answers/conversation-table.ts';
import { KeptAnswerTable } from './kept-answers/kept-answer-table.ts';
import { KeyBudgetTable } from './keys/key-budget-table.ts';
import { KeyTable } from './keys/key-table.ts';
import { LogTable } from './trajectories/log-table.ts';
import { MemberTable } from './members/member-table.ts';
import { MetricTable } from './runs/metric-table.ts';
import { ModelTable } from './models/model-table.ts';
import { ModelTagTable } from './models/model-tag-table.ts';
import { SignInTable } from './keys/sign-in-table.ts';
import { TrajectoryTable } from './trajectories/trajectory-table.ts';
import { TrackerTable } from './runs/tracker-table.ts';
import { TrustedClockTable } from './clock/trusted-clock-table.ts';
import { UsageTable } from './usage/usage-table.ts';

/** All tables of one database. Their methods are steps of a transaction that the store opens. */
export interface Tables {
  readonly announcedKeys: AnnouncedKeyTable;
  readonly artifacts: ArtifactTable;
  readonly blobPlaces: BlobPlaceTable;
  readonly keyBudgets: KeyBudgetTable;
  readonly keys: KeyTable;
  readonly models: ModelTable;
  readonly modelTags: ModelTagTable;
  readonly checkpoints: CheckpointTable;
  readonly retention: CheckpointRetentionTable;
  readonly jobs: JobTable;
  readonly events: EventTable;
  readonly logs: LogTable;
  readonly members: MemberTable;
  readonly metrics: MetricTable;
  readonly feed: FeedTable;
  readonly trajectories: TrajectoryTable;
  readonly trackers: TrackerTable;
  readonly trustedClock: TrustedClockTable;
  readonly exports: ExportTable;
  readonly adapters: AdapterTable;
  readonly choiceRecords: ChoiceRecordTable;
  readonly keptAnswers: KeptAnswerTable;
  readonly conversations: ConversationTable;
  readonly idempotency: IdempotencyTable;
  readonly signIns: SignInTable;
  readonly usage: UsageTable;
}

export function openTables(queries: Queries): Tables {
  const sql = new Statements(queries);
  const feed = new FeedTable(sql);
  return {
    announcedKeys: new AnnouncedKeyTable(sql),
    artifacts: new ArtifactTable(sql),
    blobPlaces: new BlobPlaceTable(sql),
    keyBudgets: new KeyBudgetTable(sql),
    keys: new KeyTable(sql),
    models: new ModelTable(sql),
    modelTags: new ModelTagTable(sql),
    checkpoints: new CheckpointTable(sql),
    retention: new CheckpointRetentionTable(sql),
    jobs: new JobTable(sql),
    events: new EventTable(sql, feed),
    logs: new LogTable(sql),
    members: new MemberTable(sql),
    metrics: new MetricTable(sql),
    feed,
    trajectories: new TrajectoryTable(sql),
    trackers: new TrackerTable(sql),
    trustedClock: new TrustedClockTable(sql),
    exports: new ExportTable(sql),
    adapters: new AdapterTable(sql),
    choiceRecords: new ChoiceRecordTable(sql),
    keptAnswers: new KeptAnswerTable(sql),
    conversations: new ConversationTable(sql),
    idempotency: new IdempotencyTable(sql),
    signIns: new SignInTable(sql),
    usage: new UsageTable(sql),
  };
}
