import { type LoraConfig, TrainerError } from '@trainyard/trainer';

import { type ModelParts, RemoteModel } from '../transport/remote-model.ts';
import { TinkerSession } from '../transport/session.ts';

/** A server that was contacted, and what models on it need. */
export type SlotParts = Omit<ModelParts, 'session'>;

/** A state to begin with; null: a fresh adapter. */
export type SlotStart = { readonly address: string; readonly withOptimizer: boolean } | null;

/**
 * The models that one learner has on a server: the trained one, and at most one to compare with. Servers have few slots and load a state only into a
 * new model, so that every load makes one and unloads another.
 */
export class RemoteSlots {
  readonly #server: SlotParts;
  readonly #lora: LoraConfig;
  #session: TinkerSession | null = null;
  #numModels = 0;
  #trained: RemoteModel | null = null;
  #reference: { readonly from: string | null; readonly model: RemoteModel } | null = null;

  constructor(server: SlotParts, lora: LoraConfig) {
    this.#server = server;
    this.#lora = lora;
  }

  /** The model that is trained; a fresh one where none was loaded. */
  async trained(signal?: AbortSignal): Promise<RemoteModel> {
    this.#trained ??= await this.#create(null, signal);
    return this.#trained;
  }

  /** Puts another state, or a fresh adapter, in place of the trained one, which stays when that fails. */
  async load(start: SlotStart): Promise<void> {
    if (this.#session !== null && !this.#session.isAlive) await this.close();
    const former = this.#trained;
    try {
      this.#trained = await this.#create(start);
    } catch (error) {
      if (former === null || !isFull(error)) throw error;
      // Without room for two there is none for the one that stays.
      await former.unload();
      this.#trained = null;
      this.#trained = await this.#create(start);
      return;
    }
    await former?.unload();
  }

  /** A model to compare with, which is never stepped. @param from address of its state; null: the base model */
  async reference(from: string | null, signal?: AbortSignal): Promise<RemoteModel> {
    if (this.#reference?.from === from) return this.#reference.model;
    await this.#reference?.model.unload();
    this.#reference = null;
    // A fresh adapter changes nothing: it is the base model.
    const model = await this.#create(from === null ? null : { address: from, withOptimizer: false }, signal);
    this.#reference = { from, model };
    return model;
  }

  /** A model of its own, which the caller unloads. */
  async copy(address: string | null, signal?: AbortSignal): Promise<RemoteModel> {
    return await this.#create(address === null ? null : { address, withOptimizer: false }, signal);
  }

  /** Unloads everything and ends the session. Never throws. */
  async close(): Promise<void> {
    await this.#trained?.unload();
    await this.#reference?.model.unload();
    await this.#session?.close();
    this.#trained = null;
    this.#reference = null;
    this.#session = null;
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
