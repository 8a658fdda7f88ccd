import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type { IdempotentAnswer } from '../idempotency/idempotency.ts';
import type { JobOrigin } from '../jobs/jobs.ts';

/** Exports of checkpoints in public formats. */
export interface Exports {
  /**
   * Queues an export of a checkpoint. The files stay until it ends, even if the checkpoint is deleted. Null
   * if the model or step is unknown.
   * @throws {StoreError} `store.queue_full`
   */
  create(input: NewExport): Promise<ModelExport | null>;
  get(exportId: string): Promise<ModelExport | null>;
  /** Exports in order of creation. */
  list(query: OrderedPageQuery & { modelId: string }): Promise<Page<ModelExport>>;
  /**
   * Writes in one transaction: the files, `job_ended`, the status. A failure is reported like that of any
   * job. @throws {StoreError} `store.lease_lost`
   */
  finish(exportId: string, fencingToken: number, outcome: ExportOutcome): Promise<FinishedExport>;
  /**
   * Deletes an export in any status and cancels its job. Null if unknown. The caller removes `directoryKeys`
   * from the blobs afterwards.
   */
  delete(exportId: string, completes?: IdempotentAnswer): Promise<{ directoryKeys: string[] } | null>;
}

export type ExportStatus = 'queued' | 'running' | 'succeeded' | 'failed';

export interface ExportedFile {
  name: string;
  sizeBytes: number;
  /** hex */
  sha256: string;
}

/** Export of a checkpoint in a public format: the job of the same id, and its result. */
export interface ModelExport {
  id: string;
  modelId: string;
  entityId: string;
  step: number;
  format: string;
  /** Element type of merged weights. */
  dtype: string;
  status: ExportStatus;
  /**
   * Exported checkpoint directory, kept while the export is queued or running; null = the untouched base
   * model.
   */
  sourceDirectoryKey: string | null;
  sourceDigest: string | null;
  /** Directory with the files; null unless succeeded. */
  directoryKey: string | null;
  files: ExportedFile[];
  /** Results of the comparison with the trainer, as the exporter reported them; null unless succeeded. */
  parity: Record<string, unknown> | null;
  /** Set when failed. */
  errorMessage: string | null;
  createdAt: number;
  startedAt: number | null;
  finishedAt: number | null;
}

export interface NewExport {
  modelId: string;
  step: number;
  format: string;
  dtype: string;
  /**
   * Maximum number of exports of the model that are queued or running, this one included; default: unlimited.
   */
  maxLive?: number;
  /** Default: a random UUID. */
  id?: string;
  /** Default: no known request. */
  origin?: JobOrigin;
  completes?: IdempotentAnswer;
}

export interface ExportOutcome {
  /** Directory with the files, committed before. */
  directoryKey: string;
  files: readonly ExportedFile[];
  parity: object;
}

export interface FinishedExport {
  export: ModelExport;
  /** Directories that are no longer referenced: the source, if its checkpoint was deleted meanwhile. */
  directoryKeys: string[];
}
