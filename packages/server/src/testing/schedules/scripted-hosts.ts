import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Blobs } from '@trainyard/store';
import {
  EmbeddedLearner,
  type ExportRequest,
  type ExportResult,
  type ImportedAdapter,
  type ImportRequest,
} from '@trainyard/trainer';
import { BIGRAM_LORA, BigramPolicy, byteTemplate } from '@trainyard/trainer/testing';

import { type TrainingBackend, TrainingRunError } from '../../hosts/training/embedded-training.ts';
import type { TransferBackend } from '../../hosts/transfers/embedded-transfers.ts';
import type { JobLearners } from '../../hosts/training/job-learners.ts';
import { trainJob } from '../../hosts/training/train-job.ts';
import { SnapshotCopier } from '../../hosts/training/snapshot-copier.ts';
import { retryOf } from '../../seams/faults/retry-of.ts';

export type Pass = () => Promise<void>;

/**
 * A trainer host's work in this thread: the real training loop and files, over the smallest model that
 * learns. Every gradient step depends on its data and the previous weights, so the digest of a version shows
 * which jobs made it, in which order, and how often each.
 */
export class BigramTraining implements TrainingBackend {
  readonly #options: { readonly blobs: Blobs; readonly workDirectory: string; readonly pass: Pass };

  constructor(options: { readonly blobs: Blobs; readonly workDirectory: string; readonly pass: Pass }) {
    this.#options = options;
  }

  async run(...[job, { signal, onEvent }]: Parameters<TrainingBackend['run']>): ReturnType<TrainingBackend['run']> {
    const { pass } = this.#options;
    const learners: JobLearners = {
      open: async (_, { versions }) => {
        const gate = { acquire: pass, release: () => undefined, isWanted: false };
        const learner = new EmbeddedLearner({ policy: new BigramPolicy(), versions, gate });
        return { learner, template: byteTemplate, end: async () => await learner.close() };
      },
      rest: () => undefined,
    };
    try {
      const log = () => undefined;
      return await trainJob(job, { ...this.#options, learners, remoteKey: null, signal, log, emit: onEvent });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'internal';
      throw new TrainingRunError(
        signal.aborted
          ? { code: 'trainer.cancelled', message, retry: 'never' }
          : { code, message, retry: retryOf(error) },
      );
    }
  }

  async copySnapshot(snapshots: string, directoryKey: string): Promise<number | null> {
    const { blobs, workDirectory } = this.#options;
    try {
      return await new SnapshotCopier(blobs, workDirectory).copy(snapshots, directoryKey);
    } catch (error) {
      throw new TrainingRunError({ code: 'trainer.internal', message: String(error), retry: 'never' });
    }
  }

  problem(): null {
    return null;
  }
}

/** Exports and imports whose files are digests of their input. */
export class DigestTransfers implements TransferBackend {
  readonly #pass: Pass;

  constructor(pass: Pass) {
    this.#pass = pass;
  }

  async exportCheckpoint(request: ExportRequest, { signal }: { signal: AbortSignal }): Promise<ExportResult> {
    await this.#pass();
    signal.throwIfAborted();
    const content = contentOf(request.checkpointDirectory);
    writeFileSync(join(request.outputDirectory, EXPORTED), content);
    const file = { name: EXPORTED, sizeBytes: content.length, sha256: sha256Of(content) };
    const parity = {
      numTokens: 1,
      meanDifference: 0,
      maxDifference: 0,
      computedBy: 'trainer',
      adapterEffect: 0,
    } as const;
    return { files: [file], parity };
  }

  async importAdapter(request: ImportRequest, { signal }: { signal: AbortSignal }): Promise<ImportedAdapter> {
    await this.#pass();
    signal.throwIfAborted();
    const bytes = await readFile(request.weightsPath);
    writeFileSync(join(request.outputDirectory, WEIGHTS), bytes);
    return { lora: BIGRAM_LORA, digest: sha256Of(bytes) };
  }
}

const EXPORTED = 'digest.txt';
const WEIGHTS = 'adapter_model.safetensors';

/** @param directory of a checkpoint; null: the base model */
export function contentOf(directory: string | null): string {
  if (directory === null) return 'the base model';
  const names = readdirSync(directory).toSorted();
  return names.includes(WEIGHTS)
    ? sha256Of(readFileSync(join(directory, WEIGHTS)))
    : `no weights in ${names.join(', ')}`;
}

function sha256Of(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex');
}
