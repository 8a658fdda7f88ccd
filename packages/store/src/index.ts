export type { BinnedItem, BlobItem, BlobLocation, Blobs, BlobSource } from './contract/blobs.ts';
export {
  type CheckpointSizes,
  type CheckpointState,
  type CheckpointTotals,
  liveCheckpoints,
  type MarkedCheckpoints,
  type RemovedCheckpoints,
} from './contract/checkpoint-retention.ts';
export {
  type ChoiceRecord,
  choiceRecordId,
  type ChoiceRecordLimits,
  type NewChoiceRecord,
  recordIdByTokens,
  type RecordedSampling,
} from './contract/choice-record.ts';
export { StoreError, type StoreErrorCode } from './contract/errors.ts';
export { type DatabaseReport, examineDatabase } from './examine-database.ts';
export { addressProblem } from './drivers/postgres/address-problem.ts';
export { DigestCache, stampOf } from './blobs/digest-cache.ts';
export { hashOf } from './blobs/file-hash.ts';
export { fillSpace } from './folders/fill-space.ts';
export { JsonLine } from './blobs/json-lines.ts';
export { FolderBlobs } from './blobs/folder-blobs.ts';
export { BUCKET_KEY_VARIABLES, openBlobs } from './blobs/open-blobs.ts';
export { blobFindings } from './examining/blob-findings.ts';
export { type AskEngine, clusterFindings, type Finding, untilLost } from './examining/cluster-findings.ts';
export { lookAtStore } from './look-at-store.ts';
export type { BucketRequest } from './blobs/s3/s3-bucket.ts';
export type { DatabaseCall } from './drivers/measured-sql.ts';
export { LastKnown } from './buffers/last-known.ts';
export { settledWithin } from './buffers/settled-within.ts';
export {
  checkOwnBlobs,
  dropOtherMarks,
  foreignClaim,
  hasContent,
  placeKey,
  refuseLostDatabase,
} from './blobs/own-blobs.ts';
export { isDamagedSecret, makeKeySecret } from './tables/keys/key-secret.ts';
export { makeFolders } from './folders/make-folders.ts';
export { createFile, replaceFile, syncFolder } from './folders/replace-file.ts';
export { type OrphanRules, type SweepReport, sweepOrphans, takeCensus } from './blobs/orphans.ts';
export {
  type KeyAnswer,
  type KeyBudget,
  type KeyLimits,
  type KeySpending,
  type KeyVerdict,
  type LimitedWork,
  limitsIfAny,
  NO_LIMITS,
} from './contract/key-limits.ts';
export { fullBudget, judge, refilled } from './lifecycles/key-budget.ts';
export {
  type AnswerEvents,
  type AnswerKey,
  type AnswerState,
  type AnswerStatus,
  type AnswerText,
  type EndedAnswerStatus,
  type KeepResult,
  type KeptAnswer,
  type KeptAnswerLimits,
  type KeptAnswers,
  type KeptAnswerStatus,
  type LiveAnswer,
  type LostAnswer,
  type NewKeptAnswer,
  type NewLiveAnswer,
  type WholeAnswer,
} from './contract/kept-answer.ts';
export type { CompletesWith, IdempotentAnswer } from './contract/idempotent-answer.ts';
export type { BeforeUnpacking, KeptScope } from './contract/kept-scope.ts';
export type {
  AddResult,
  Conversation,
  ConversationItem,
  ConversationKey,
  ConversationPage,
  Conversations,
  ConversationTurn,
} from './contract/conversation.ts';
export type { Member, MemberFacts, MemberModel, MemberRole, NewMember, TrainerLimits } from './contract/member.ts';
export type { OrderedPageQuery, Page, PageQuery } from './contract/page.ts';
export type {
  Adapter,
  ApiKey,
  Artifact,
  Caller,
  Checkpoint,
  ClaimedJob,
  Entity,
  ExportedFile,
  ExportJob,
  ExportStatus,
  ImportJob,
  Job,
  JobEvent,
  JobEventType,
  JobKind,
  JobOfKind,
  JobOrigin,
  JobSnapshot,
  JobStart,
  JobStatus,
  Lease,
  LogCounts,
  LoraShape,
  Metrics,
  Model,
  WarmStart,
  ModelExport,
  ModelState,
  NamedStep,
  QueuedJob,
  Scope,
  Session,
  SignIn,
  SignInKind,
  TerminalEventType,
  TrainingJob,
  TrainingJobConfig,
  TrajectoryLog,
  Usage,
  UsageGroup,
  UsageKind,
  UsagePart,
  UsageTotal,
} from './contract/records.ts';
export type {
  FeedItem,
  FeedQuery,
  FeedType,
  BestCheckpoint,
  MetricSeries,
  Series,
  SeriesAxis,
  SeriesPoint,
  SeriesQuery,
  TrackedRunRecord,
} from './contract/run.ts';
export type {
  GroupPrompts,
  GroupRewards,
  NewTokenTrace,
  TokenTrace,
  TrajectoryOutcome,
  TrajectoryPlace,
  TrajectoryQuery,
  TrajectoryRecord,
  TrajectorySummary,
} from './contract/trajectory.ts';
export { isTrainingJob, TRAINING_JOB_KINDS, snapshotsOf } from './lifecycles/job-lifecycle.ts';
export { openSqliteStore } from './open-sqlite-store.ts';
export type { StoreLocation } from './contract/store-location.ts';
export { openStore } from './open-store.ts';
export { type BackupManifest, checkBackup, makeBackup, restoreBackup } from './moving/backup.ts';
export { type BlobDigest, copyBlobs } from './moving/copy-blobs.ts';
export { copyDatabase } from './moving/copy-database.ts';
export { digestOf, type TableDigest } from './moving/table-digest.ts';
export { SqlStore, type SqlStoreOptions } from './sql-store.ts';
export type {
  AddArtifactResult,
  AdoptedCheckpoint,
  AdoptResult,
  ArtifactName,
  CancelJobResult,
  CommittedAdapter,
  CreateModelResult,
  DeleteCheckpointsResult,
  DeleteModelResult,
  ExpiredTrajectories,
  ExportOutcome,
  FindModelResult,
  FinishedExport,
  FinishedJob,
  IdempotentState,
  JobControlResult,
  JobFilter,
  JobOutcome,
  KnownKey,
  NewArtifact,
  NewAdapter,
  NewEvent,
  NewStepUsage,
  NewExport,
  NewJob,
  NewKey,
  NewLog,
  NewModel,
  NewWarmStart,
  RemovedAdapters,
  Store,
} from './contract/store.ts';
