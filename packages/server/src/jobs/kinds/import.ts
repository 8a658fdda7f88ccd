import { type Adapter, type Blobs, type ClaimedJob, type ImportJob, type Store, StoreError } from '@trainyard/store';

import { nameFile } from '../../seams/data/remove-unless-named.ts';
import { clientFailure, JobFault } from '../../seams/faults/http-faults.ts';
import { RequestError } from '../../seams/faults/request-error.ts';
import type { TransferBackend } from '../../hosts/transfers/embedded-transfers.ts';
import type { Log } from '../../seams/logging/log.ts';
import { aboutJob } from '../about-job.ts';
import { baseModelPath, type BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import { isPassingButFull } from '../../seams/faults/passing-fault.ts';
import type { ModelCheck } from '../../seams/integrity/model-check.ts';
import { isUploadIntact } from '../../seams/integrity/upload-digest.ts';
import type { JobLease } from '../job-lease.ts';
import type { JobWork } from '../job-machine.ts';
import { keepDirectory } from '../keep-directory.ts';
import { MAX_SERVICE_LOSSES, retryLostHost } from '../retry-lost-host.ts';

type AdapterUpload = NonNullable<Adapter['upload']>;
type HeldImport = ClaimedJob<ImportJob>;

export interface ImportJobsOptions {
  readonly store: Store;
  readonly blobs: Blobs;
  readonly backend: TransferBackend;
  readonly modelPaths: BaseModelPaths;
  /** Checks the files of base models. Default: none are checked. */
  readonly files?: ModelCheck;
  readonly log: Log;
}

/** Requests that wait for imports in this process. */
export interface ImportAudience {
  /** Called before it fails, with the error; null: it continues after all, here or elsewhere. */
  fails(jobId: string, error: unknown): void;
  /** Called at its end; the row has the result. */
  ended(jobId: string): void;
}

/** Import jobs: each upload is read, checked against the base model and becomes an adapter. */
export class ImportJobs implements JobWork<'import'> {
  readonly kinds = ['import'] as const;
  readonly noun = 'import';
  readonly pollMs = 1_000;
  readonly maxAttempts = MAX_SERVICE_LOSSES;
  readonly #options: ImportJobsOptions;
  readonly #audience: ImportAudience;

  constructor(options: ImportJobsOptions, audience: ImportAudience) {
    this.#options = options;
    this.#audience = audience;
  }

  lostTooOften({ numAttempts }: HeldImport): Error {
    return new JobFault('trainer.host_lost', `the service stopped ${numAttempts - 1} times while this import ran`);
  }

  async run(job: HeldImport, lease: JobLease): Promise<void> {
    const { log } = this.#options;
    await retryLostHost(() => this.#attempt(job, lease), { name: `import ${job.id}`, lease, log });
  }

  async #attempt(job: HeldImport, lease: JobLease): Promise<void> {
    const { store, blobs, backend, modelPaths } = this.#options;
    const adapter = await lease.insist(() => store.adapters.get(job.turn), isPassingButFull);
    if (adapter?.upload == null) throw new StoreError('store.lease_lost', 'the adapter was deleted');
    const { config, weightsPath } = await lease.insist(() => uploadedFiles(blobs, adapter), isPassingButFull);
    await lease.insist(() => refuseDamagedUpload(blobs, adapter.upload!), isPassingButFull);
    refuseOtherBase(config, adapter.baseModel, modelPaths);
    const modelPath = baseModelPath(modelPaths, adapter.baseModel, 'the adapter');
    await this.#options.files?.check(adapter.baseModel);
    const staged = await lease.insist(() => blobs.stageDirectory(), isPassingButFull);
    try {
      const request = { modelPath, config, weightsPath, outputDirectory: staged };
      await this.#finish(job, await backend.importAdapter(request, { signal: lease.signal }), staged, lease);
    } finally {
      await blobs.discardDirectory(staged);
    }
  }

  async fail(job: HeldImport, error: unknown): Promise<void> {
    const { store, log } = this.#options;
    const { code, message } = clientFailure(error);
    const reason = error instanceof Error ? error.message : String(error);
    log(`import ${job.id} failed (${code}): ${reason}`, { ...aboutJob(job), level: 'error' });
    // Before the row changes: a request that sees the row first would not have the original error.
    this.#audience.fails(job.id, error);
    await store.jobs.fail(job.id, job.fencingToken, `${message} (${code})`, { code, message });
  }

  /** Its adapter was deleted, or another worker has it. */
  async leave({ id }: HeldImport): Promise<boolean> {
    this.#audience.fails(id, null);
    const now = await this.#options.store.jobs.get(id);
    return now !== null && now.finishedAt === null;
  }

  async clear({ id }: HeldImport): Promise<void> {
    this.#audience.ended(id);
  }

  async #finish(
    job: HeldImport,
    { lora, digest }: Omit<NonNullable<Adapter['content']>, 'directoryKey'>,
    staged: string,
    lease: JobLease,
  ): Promise<void> {
    const { store, blobs, log } = this.#options;
    const directoryKey = await keepDirectory({ store, blobs, lease }, staged, 'adapters/');
    const write = () => store.adapters.finishImport(job.id, job.fencingToken, { lora, directoryKey, digest });
    const file = { key: directoryKey, kind: 'directory' } as const;
    const committed = await nameFile({ store, blobs, log }, file, write, (work) =>
      lease.insist(work, isPassingButFull),
    );
    // Null: it is committed, although the store reported an error. The upload's files are then removed at the
    // next start.
    for (const key of committed?.blobKeys ?? []) await blobs.remove(key);
  }
}

/**
 * Uploaded files.
 * @throws {RequestError} `request.conflict` if a file is missing
 */
export async function uploadedFiles(
  blobs: Blobs,
  { id, upload }: Adapter,
): Promise<{ config: string; weightsPath: string }> {
  const [configPath, weightsPath] =
    upload === null
      ? [null, null]
      : [await blobs.localFile(upload.configKey), await blobs.localFile(upload.weightsKey)];
  if (upload === null || configPath === null) throw missing('adapter_config.json', id);
  if (weightsPath === null) throw missing('adapter_model.safetensors', id);
  const config = Buffer.from(await blobs.get(upload.configKey)).toString('utf8');
  // Windows editors write a byte order mark.
  return { config: config.replace(/^\uFEFF/, ''), weightsPath };
}

/** @throws {JobFault} `store.blob_corrupt` for a file that differs from the upload */
async function refuseDamagedUpload(blobs: Blobs, { configKey, weightsKey }: AdapterUpload): Promise<void> {
  const files = { 'adapter_config.json': configKey, 'adapter_model.safetensors': weightsKey };
  for (const [name, key] of Object.entries(files)) {
    const path = await blobs.localFile(key);
    if (path === null || (await isUploadIntact(blobs, key, path))) continue;
    throw new JobFault(
      'store.blob_corrupt',
      `The uploaded ${name} is damaged: its SHA-256 differs from the uploaded bytes. Upload the file again`,
    );
  }
}

/**
 * Refuses an adapter whose config names another model of this service: its shapes could fit, and its answers
 * be nonsense.
 * @throws {JobFault} `trainer.adapter_invalid`
 */
function refuseOtherBase(config: string, baseModel: string, modelPaths: BaseModelPaths): void {
  const named = namedBase(config);
  if (typeof named !== 'string' || named === baseModel || modelPaths(named) === null) return;
  throw new JobFault(
    'trainer.adapter_invalid',
    `\`base_model_name_or_path\` of adapter_config.json is ${named}, but the upload was started for ${baseModel}: start one with \`base_model\` ${named}`,
  );
}

function namedBase(config: string): unknown {
  try {
    return (JSON.parse(config) as { base_model_name_or_path?: unknown } | null)?.base_model_name_or_path;
  } catch {
    return null; // reported by the reader of the rest
  }
}

function missing(name: string, adapterId: string): RequestError {
  return new RequestError(
    'request.conflict',
    `The upload lacks ${name}; send it with PUT /v1/preview/adapters/${adapterId}/files/${name}`,
    { param: name },
  );
}
