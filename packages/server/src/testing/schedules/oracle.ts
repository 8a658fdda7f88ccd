import { randomUUID } from 'node:crypto';
import { createReadStream, mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { type Blobs, FolderBlobs } from '@trainyard/store';
import type { TrainerEvent } from '@trainyard/trainer';
import { BIGRAM_LORA } from '@trainyard/trainer/testing';

import type { TrainingJobConfig, TrainingJobRequest } from '../../hosts/process/messages.ts';
import { BigramTraining } from './scripted-hosts.ts';

/** A job of an undisturbed service: its data and settings. */
export interface KnownJob {
  readonly name: string;
  readonly blobs: Blobs;
  readonly dataKey: string;
  readonly settings: TrainingJobConfig;
}

export interface Trained {
  readonly digest: string;
  readonly numGradientSteps: number;
  /** Held-out losses by gradient step, as JSON. */
  readonly heldOut: string;
}

/** Versions of undisturbed jobs, each trained once and cached. */
export class Oracle {
  readonly #blobs: Blobs;
  readonly #training: BigramTraining;
  readonly #known = new Map<string, { readonly dataKey: string; readonly settings: TrainingJobConfig }>();
  readonly #trained = new Map<string, Promise<Trained>>();

  static async open(directory: string): Promise<Oracle> {
    const workDirectory = join(directory, 'work');
    mkdirSync(workDirectory, { recursive: true });
    return new Oracle(await FolderBlobs.open(join(directory, 'blobs')), workDirectory);
  }

  private constructor(blobs: Blobs, workDirectory: string) {
    this.#blobs = blobs;
    this.#training = new BigramTraining({ blobs, workDirectory, pass: async () => undefined });
  }

  /** @param job its data are copied */
  async learn({ name, blobs, dataKey, settings }: KnownJob): Promise<void> {
    for (const { kind, path } of await blobs.rawFiles(dataKey))
      await this.#blobs.putRaw(dataKey, kind, createReadStream(path));
    this.#known.set(name, { dataKey, settings });
  }

  /**
   * @param names of a model's jobs in order
   * @returns the result of the last one
   */
  async train(names: readonly string[]): Promise<Trained> {
    const chain = names.join(' ');
    let trained = this.#trained.get(chain);
    if (trained === undefined) this.#trained.set(chain, (trained = this.#train(names)));
    return await trained;
  }

  async #train(names: readonly string[]): Promise<Trained> {
    const before = names.slice(0, -1);
    if (before.length > 0) await this.train(before);
    const job = this.#known.get(names.at(-1) ?? '');
    if (job === undefined) throw new Error(`the oracle does not know ${names.at(-1)}`);
    const request: TrainingJobRequest = {
      ...job.settings,
      jobId: randomUUID(),
      modelPath: '/bigram.gguf',
      dataKey: job.dataKey,
      lora: BIGRAM_LORA,
      startFrom: before.length === 0 ? null : keyOf(before),
      withFreshOptimizer: false,
      snapshots: randomUUID(),
      output: keyOf(names),
      seed: before.length,
      keepsTraces: false,
    };
    const signal = new AbortController().signal;
    const heldOut: [number, number][] = [];
    const onEvent = (event: TrainerEvent) => {
      if (event.kind === 'held_out') heldOut.push([event.numSteps, event.measures.loss]);
    };
    const { digest, numGradientSteps } = await this.#training.run(request, { signal, onEvent });
    if (digest === null) throw new Error(`${names.at(-1)} trains nothing`);
    return { digest, numGradientSteps, heldOut: JSON.stringify(heldOut) };
  }
}

const keyOf = (names: readonly string[]): string => `checkpoints/${names.join('/')}`;
