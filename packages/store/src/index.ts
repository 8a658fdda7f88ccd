export type { Blobs, BlobSource } from './blobs/blobs.ts';
export type { ChoiceRecord, ChoiceRecordLimits, NewChoiceRecord, RecordedSampling } from './choice-record.ts';
export { StoreError, type StoreErrorCode } from './errors.ts';
export { FolderBlobs } from './blobs/folder-blobs.ts';
export { isDamagedSecret } from './key-secret.ts';
export { removeOrphans } from './blobs/orphans.ts';
export type { OrderedPageQuery, Page, PageQuery } from './page.ts';
export type {
  Adapter,
  ApiKey,
  Artifact,
  Caller,
  Checkpoint,
  ClaimedJob,
  Entity,
  ExportedFile,
  ExportStatus,
  Job,
  JobEvent,
  JobEventType,
  JobKind,
  JobStart,
  JobStatus,
  Lease,
  LogCounts,
  LoraShape,
  Metrics,
  Model,
  ModelInit,
  ModelExport,
  Scope,
  TerminalEventType,
  TrajectoryLog,
  Usage,
  UsageKind,
  UsageTotal,
} from './records.ts';
export { openSqliteStore } from './drivers/sqlite/open-sqlite-store.ts';
export { SqlStore, type SqlStoreOptions } from './sql-store.ts';
export type {
  AddArtifactResult,
  ArtifactName,
  CancelJobResult,
  CreateModelResult,
  DeleteCheckpointsResult,
  DeleteModelResult,
  ExpiredTrajectories,
  ExportOutcome,
  FindModelResult,
  FinishedExport,
  FinishedJob,
  IdempotentAnswer,
  IdempotentState,
  JobControlResult,
  JobOutcome,
  NewArtifact,
  NewAdapter,
  NewEvent,
  NewExport,
  NewJob,
  NewKey,
  NewLog,
  NewModel,
  NewModelInit,
  RemovedAdapters,
  Store,
} from './store.ts';
