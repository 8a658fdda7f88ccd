import type { OrderedPageQuery, Page } from '../../contract/page.ts';
import type { LoraShape } from '../checkpoints/checkpoints.ts';
import type { IdempotentAnswer } from '../idempotency/idempotency.ts';
import type { ImportJob, JobOrigin } from '../jobs/jobs.ts';

/** Imported adapters and their uploads. */
export interface Adapters {
  /** Starts an upload. @throws {StoreError} `store.queue_full` */
  create(input: NewAdapter): Promise<Adapter>;
  get(adapterId: string): Promise<Adapter | null>;
  /** Adapters in order of creation; includes unfinished uploads. */
  list(query: OrderedPageQuery & { entityId: string }): Promise<Page<Adapter>>;
  /**
   * Queues the import of an upload, or returns the one that is queued or running. Null if the adapter is
   * unknown or already committed.
   * @param maxLive maximum of all imports
   * @throws {StoreError} `store.queue_full`
   */
  enqueueImport(adapterId: string, options?: { maxLive?: number; origin?: JobOrigin }): Promise<ImportJob | null>;
  /**
   * Writes in one transaction: the committed adapter, `job_ended`, the status. The caller removes `blobKeys`
   * afterwards. @throws {StoreError} `store.lease_lost`
   */
  finishImport(
    jobId: string,
    fencingToken: number,
    content: NonNullable<Adapter['content']>,
  ): Promise<CommittedAdapter>;
  /**
   * Deletes an adapter and cancels its import; models that started from it keep its files. Null if unknown.
   * The caller removes the returned files.
   */
  delete(adapterId: string, completes?: IdempotentAnswer): Promise<RemovedAdapters | null>;
  /**
   * Deletes uploads of the entity that started before that time and were never committed. The caller removes
   * the returned files.
   */
  expireUploads(entityId: string, before: number): Promise<RemovedAdapters>;
}

export interface Adapter {
  id: string;
  entityId: string;
  baseModel: string;
  /** Blobs of the uploaded files; null once it is committed. */
  upload: { configKey: string; weightsKey: string } | null;
  /** Shape and directory, laid out as that of a checkpoint; null until committed. */
  content: { lora: LoraShape; directoryKey: string; digest: string } | null;
  createdAt: number;
  committedAt: number | null;
}

export interface NewAdapter {
  entityId: string;
  baseModel: string;
  configKey: string;
  weightsKey: string;
  /** Maximum number of open uploads of the entity, this one included; default: unlimited. */
  maxOpen?: number;
  /** Default: a random UUID. */
  id?: string;
  completes?: IdempotentAnswer;
}

export interface CommittedAdapter {
  adapter: Adapter;
  blobKeys: string[];
}

export interface RemovedAdapters {
  directoryKeys: string[];
  /** Adapter versions that no model and no import has any more. */
  digests: string[];
  blobKeys: string[];
}
