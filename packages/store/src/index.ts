export type * from './contract/blobs.ts';
export { StoreError, type StoreErrorCode } from './contract/errors.ts';
export type * from './contract/page.ts';
export type * from './contract/store-location.ts';
export type * from './parts/artifacts/artifacts.ts';
export type * from './parts/checkpoints/checkpoint-retention.ts';
export { liveCheckpoints } from './parts/checkpoints/checkpoint-retention.ts';
export type * from './parts/checkpoints/checkpoints.ts';
export type * from './parts/choice-records/choice-records.ts';
export { choiceRecordId, recordIdByTokens } from './parts/choice-records/choice-records.ts';
export type * from './parts/clock/clock.ts';
export type * from './parts/database.ts';
export type * from './parts/feed/feed.ts';
export type * from './parts/files/files.ts';
export type * from './parts/idempotency/idempotency.ts';
export { isTrainingJob, snapshotsOf, TRAINING_JOB_KINDS } from './parts/jobs/job-lifecycle.ts';
export type * from './parts/jobs/jobs.ts';
export type * from './parts/kept-answers/conversations.ts';
export type * from './parts/kept-answers/kept-answers.ts';
export type * from './parts/kept-answers/kept-scope.ts';
export { fullBudget, judge, refilled } from './parts/keys/key-budget.ts';
export type * from './parts/keys/key-limits.ts';
export { limitsIfAny, NO_LIMITS } from './parts/keys/key-limits.ts';
export { isDamagedSecret, makeKeySecret } from './parts/keys/key-secret.ts';
export type * from './parts/keys/keys.ts';
export type * from './parts/keys/sign-ins.ts';
export { LastKnown } from './parts/last-known.ts';
export type * from './parts/members/members.ts';
export type * from './parts/models/models.ts';
export { refuseArchived } from './parts/jobs/refuse-archived.ts';
export type * from './parts/runs/runs.ts';
export { settledWithin } from './parts/settled-within.ts';
export type { Store } from './parts/store.ts';
export type * from './parts/trajectories/trajectories.ts';
export type * from './parts/transfers/adapters.ts';
export type * from './parts/pulls/pulls.ts';
export type * from './parts/transfers/exports.ts';
export type * from './parts/usage/usage.ts';
export { DigestCache, stampOf } from './blobs/digest-cache.ts';
export { hashOf } from './blobs/file-hash.ts';
export { FolderBlobs } from './blobs/folder-blobs.ts';
export { JsonLine } from './blobs/json-lines.ts';
export { BUCKET_KEY_VARIABLES, openBlobs } from './blobs/open-blobs.ts';
export { type OrphanRules, type SweepReport, sweepOrphans, takeCensus } from './blobs/orphans.ts';
export {
  checkOwnBlobs,
  dropOtherMarks,
  foreignClaim,
  hasContent,
  placeKey,
  refuseLostDatabase,
} from './blobs/own-blobs.ts';
export type { BucketRequest } from './blobs/s3/s3-bucket.ts';
export type { DatabaseCall } from './drivers/measured-sql.ts';
export { type DatabaseReport, examineDatabase } from './examine-database.ts';
export { blobFindings } from './examining/blob-findings.ts';
export { type AskEngine, clusterFindings, type Finding, untilLost } from './examining/cluster-findings.ts';
export { lookAtStore } from './look-at-store.ts';
export { type BackupManifest, checkBackup, makeBackup, restoreBackup } from './moving/backup.ts';
export { type BlobDigest, copyBlobs } from './moving/copy-blobs.ts';
export { copyDatabase } from './moving/copy-database.ts';
export { digestOf, type TableDigest } from './moving/table-digest.ts';
export { openSqliteStore } from './open-sqlite-store.ts';
export { openStore } from './open-store.ts';
export * from './places.ts';
export { SqlStore, type SqlStoreOptions } from './sql-store.ts';
