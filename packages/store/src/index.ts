export type { Blobs, BlobSource } from './blobs.ts';
export { StoreError, type StoreErrorCode } from './errors.ts';
export { FolderBlobs } from './folder-blobs.ts';
export { removeOrphans } from './orphans.ts';
export type { OrderedPageQuery, Page, PageQuery } from './page.ts';
export type {
  ApiKey,
  Artifact,
  Caller,
  Checkpoint,
  ClaimedJob,
  Entity,
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
  Scope,
  TerminalEventType,
  TrajectoryLog,
  Usage,
  UsageKind,
  UsageTotal,
} from './records.ts';
export { SqliteStore, type SqliteStoreOptions } from './sqlite/sqlite-store.ts';
export type {
  AddArtifactResult,
  ArtifactName,
  CancelJobResult,
  CreateModelResult,
  DeleteCheckpointsResult,
  DeleteModelResult,
  FindModelResult,
  FinishedJob,
  IdempotentAnswer,
  IdempotentState,
  JobControlResult,
  JobOutcome,
  NewArtifact,
  NewEvent,
  NewJob,
  NewKey,
  NewLog,
  NewModel,
  NewModelInit,
  Store,
} from './store.ts';
