import { randomUUID } from 'node:crypto';

import { type LoraConfig, TrainerError } from '@trainyard/trainer';

import { type AdamParams, type ModelParts, RemoteModel } from '../transport/remote-model.ts';
import { TinkerSession } from '../transport/session.ts';
import { deleteCheckpoint } from './checkpoints.ts';

export type SlotParts = Omit<ModelParts, 'session'>;

/** An initial state; null: a fresh adapter. */
export type SlotStart = { readonly address: string; readonly withOptimizer: boolean } | null;

/** Lifetime of a state that is loaded at once. */
const FRESH_SECONDS = 3_600;

/**
 * A learner's models on a server: the trained one, and at most one for reference. Servers have few slots and
 * load a state only into a new model, so each load creates one and unloads another.
 */
export class RemoteSlots {
  readonly #server: SlotParts;
  readonly #lora: LoraConfig;
  readonly #scaling: AdamParams | null;
  #session: TinkerSession | null = null;
  #numModels = 0;
  #trained: RemoteModel | null = null;
  #reference: { readonly from: string | null; readonly model: RemoteModel } | null = null;

  /** @param scaling first step of every fresh adapter that is trained, see `scalingStep`; null: none */
  constructor(server: SlotParts, lora: LoraConfig, scaling: AdamParams | null = null) {
    this.#server = server;
    this.#lora = lora;
    this.#scaling = scaling;
  }

  /** Creates a fresh model if none was loaded. */
  async trained(signal?: AbortSignal): Promise<RemoteModel> {
    this.#trained ??= await this.#fresh(signal);
    return this.#trained;
  }

  /** Keeps the trained model on failure, unless there was no slot for two. */
  async load(start: SlotStart): Promise<void> {
    if (this.#session !== null && !this.#session.isAlive) await this.close();
    const former = this.#trained;
    try {
      this.#trained = await this.#begin(start);
    } catch (error) {
      if (former === null || !isFull(error)) throw error;
      // If there is no slot for two, unload the former first.
      await former.unload();
      this.#trained = null;
      this.#trained = await this.#begin(start);
      return;
    }
    await former?.unload();
  }

  /** Reference model, which is never stepped. @param from address of its state; null: the base model */
  async reference(from: string | null, signal?: AbortSignal): Promise<RemoteModel> {
    if (this.#reference?.from === from) return this.#reference.model;
    await this.#reference?.model.unload();
    this.#reference = null;
    // A fresh adapter changes nothing, so it is the base model.
    const model = await this.#create(from === null ? null : { address: from, withOptimizer: false }, signal);
    this.#reference = { from, model };
    return model;
  }

  /** A separate model, which the caller unloads. */
  async copy(address: string | null, signal?: AbortSignal): Promise<RemoteModel> {
    return await this.#create(address === null ? null : { address, withOptimizer: false }, signal);
  }

  /** Never throws. */
  async close(): Promise<void> {
    await this.#trained?.unload();
    await this.#reference?.model.unload();
    await this.#session?.close();
    this.#trained = null;
    this.#reference = null;
    this.#session = null;
  }

  async #begin(start: SlotStart): Promise<RemoteModel> {
    return start === null ? await this.#fresh() : await this.#create(start);
  }

  /** A fresh adapter of this service's scale. Its weights go into another model, whose optimizer has taken no step. */
  async #fresh(signal?: AbortSignal): Promise<RemoteModel> {
    const model = await this.#create(null, signal);
    if (this.#scaling === null) return model;
    const { http } = this.#server.facts;
    let address: string | null = null;
    try {
      await (
        await model.step(this.#scaling, { signal })
      )();
      address = await model.saveState(`trainyard-${randomUUID()}`, { lifetimeSeconds: FRESH_SECONDS, signal });
    } finally {
      await model.unload();
    }
    try {
      return await this.#create({ address, withOptimizer: false }, signal);
    } finally {
      await deleteCheckpoint(http, address);
    }
  }

  async #create(start: SlotStart, signal?: AbortSignal): Promise<RemoteModel> {
    const { facts, log } = this.#server;
    this.#session ??= await TinkerSession.open(facts.http, log);
    return await RemoteModel.create({ ...this.#server, session: this.#session }, this.#lora, {
      index: this.#numModels++,
      from: start?.address ?? null,
      withOptimizer: start?.withOptimizer ?? false,
      signal,
    });
  }
}

function isFull(error: unknown): boolean {
  return error instanceof TrainerError && error.code === 'trainer.remote_unavailable';
}
