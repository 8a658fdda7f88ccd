import { formatMegabytes } from '@trainyard/protocol/fields';
import {
  type Blobs,
  type CheckpointSizes,
  type CheckpointState,
  foreignClaim,
  liveCheckpoints,
  type Model,
  type Store,
} from '@trainyard/store';

import { versionName } from '../../seams/contract/model-names.ts';
import { type KeepPolicy } from './keep-policy.ts';
import { removableSteps, stepsWithoutOptimizer } from './keep-reasons.ts';
import { type FactsStore, modelFacts } from './model-facts.ts';
import { recordSizes, removeOptimizerState } from './checkpoint-sizes.ts';

const HOUR_MS = 3_600_000;
/** Time during which a removed checkpoint can be restored. */
const RESTORABLE_MS = 24 * HOUR_MS;
/** Default of `maxRestorable`. */
const MAX_RESTORABLE = 50;
const MODELS = 100;
/** Models trained within this time get the frequent checks. */
const RECENT_MS = HOUR_MS / 4;

export type KeeperStore = FactsStore & Pick<Store, 'files' | 'models' | 'retention'>;

export interface KeeperOptions {
  readonly store: KeeperStore;
  readonly blobs: Blobs;
  /** Null: nothing is removed. */
  readonly policy: KeepPolicy | null;
  /** Retention of blobs in the bin, ms; removed checkpoints stay a day at most. */
  readonly binMs: number;
  /**
   * Removed checkpoints per model that stay that long; beyond this number the oldest are deleted after an
   * hour, so that fast training does not fill the disk. Default 50.
   */
  readonly maxRestorable?: number;
  /** Receives the digest of each version without a checkpoint. */
  readonly retire: (digest: string) => void;
  readonly log: (line: string) => void;
}

/** Removes checkpoints that the policy does not keep. They go to the bin; marking restores them. */
export class CheckpointKeeper {
  readonly #options: KeeperOptions;

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  /**
   * Checks all models.
   * @param shouldStop called between two models
   */
  async round(shouldStop: () => boolean): Promise<void> {
    if (!(await this.#hasBlobs())) return;
    for (let after: string | null = null; ;) {
      const page = await this.#options.store.models.list({ limit: MODELS, after });
      for (const model of page.items) {
        if (shouldStop()) return;
        await this.#attempt(model, async () => this.#emptyBin(model, await this.#keep(model)));
      }
      after = page.items.at(-1)?.id ?? null;
      if (!page.hasMore || after === null) return;
    }
  }

  /** Checks models with new checkpoints. Does not empty the bin. */
  async recentRound(shouldStop: () => boolean): Promise<void> {
    const { store } = this.#options;
    const modelIds = await store.retention.listModelsTrainedSince(store.clock.now() - RECENT_MS);
    if (modelIds.length === 0 || !(await this.#hasBlobs())) return;
    for (const id of modelIds) {
      if (shouldStop()) return;
      const model = await store.models.get(id);
      if (model !== null) await this.#attempt(model, async () => void (await this.#keep(model)));
    }
  }

  /**
   * True if the blobs still belong to this database: blobs that another service has adopted are not touched.
   */
  async #hasBlobs(): Promise<boolean> {
    const { store, blobs } = this.#options;
    return (await foreignClaim(store, blobs)) === null;
  }

  /** A damaged folder of one model must not stop the round for others. */
  async #attempt({ entity, project, name }: Model, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#options.log(`checkpoints of ${entity}/${project}/${name} are kept for now: ${(error as Error).message}`);
    }
  }

  /**
   * Lists the checkpoints once. The store checks later changes in its transactions: a mark, a job or a
   * request overrides the list.
   * @returns the checkpoints afterwards, by step
   */
  async #keep(model: Model): Promise<CheckpointState[]> {
    const { store, policy } = this.#options;
    const states = await this.#measure(await store.retention.listStates(model.id));
    if (policy === null) return states;
    const kept = await this.#remove(model, policy, states);
    await this.#dropOptimizers(model, policy, liveCheckpoints(kept));
    return kept;
  }

  async #measure(states: readonly CheckpointState[]): Promise<CheckpointState[]> {
    const unmeasured = liveCheckpoints(states).filter(({ sizeBytes }) => sizeBytes === null);
    const sizes = new Map<string | null, CheckpointSizes | null>();
    for (const { directoryKey: key } of unmeasured)
      if (key !== null && !sizes.has(key)) sizes.set(key, await recordSizes(this.#options, key));
    return states.map((state) => ({ ...state, ...sizes.get(state.directoryKey) }));
  }

  async #remove(model: Model, policy: KeepPolicy, states: readonly CheckpointState[]): Promise<CheckpointState[]> {
    const { store, blobs, retire, log } = this.#options;
    const steps = removableSteps(
      liveCheckpoints(states),
      policy,
      await modelFacts(store, model.id, liveCheckpoints(states)),
    );
    if (steps.length === 0) return [...states];
    const removed = await store.retention.remove(model.id, steps);
    for (const digest of removed.digests) retire(digest);
    const now = store.clock.now();
    // A crash in between leaves the directory as an orphan.
    for (const key of removed.directoryKeys)
      await blobs
        .discard({ kind: 'directory', key }, now)
        .catch((error: unknown) => log(`${key} is left as an orphan: ${String(error)}`));
    for (const step of removed.steps)
      log(
        `removed the checkpoint ${versionName(model, step)} (--keep-checkpoints); ` +
          '`trainyard checkpoints keep` restores it while it is in the bin',
      );
    const gone = new Set(removed.steps);
    return states.map((state) =>
      gone.has(state.step) && state.removedAt === null ? { ...state, removedAt: now } : state,
    );
  }

  async #dropOptimizers(model: Model, policy: KeepPolicy, states: readonly CheckpointState[]): Promise<void> {
    const { store, blobs, log } = this.#options;
    const steps = stepsWithoutOptimizer(states, policy);
    if (steps.length === 0) return;
    let bytes = 0;
    for (const key of await store.retention.dropOptimizers(model.id, steps)) {
      await removeOptimizerState(blobs, key);
      bytes += states.find(({ directoryKey }) => directoryKey === key)?.optimizerBytes ?? 0;
      await recordSizes(this.#options, key);
    }
    if (bytes === 0) return;
    const name = `${model.entity}/${model.project}/${model.name}`;
    log(`removed ${formatMegabytes(bytes)} of optimizer state of earlier steps of ${name} (--keep-checkpoints)`);
  }

  async #emptyBin(model: Model, states: readonly CheckpointState[]): Promise<void> {
    const { store, blobs, binMs, maxRestorable = MAX_RESTORABLE, log } = this.#options;
    const removed = states.filter(({ removedAt }) => removedAt !== null);
    const now = store.clock.now();
    const due = removed.filter(({ removedAt }, index) => {
      const age = now - (removedAt ?? now);
      const isCrowded = index < removed.length - maxRestorable;
      return age >= Math.min(binMs, isCrowded ? HOUR_MS : RESTORABLE_MS);
    });
    if (due.length === 0) return;
    const binned = await blobs.listBin();
    // Rows go first: a crash in between leaves the files to the sweep of the bin.
    await store.retention.forget(due.map(({ id }) => id));
    const restorable = new Set(removed.filter((state) => !due.includes(state)).map((state) => state.directoryKey));
    for (const { step, directoryKey } of due) {
      if (restorable.has(directoryKey)) continue;
      for (const item of binned)
        if (item.kind === 'directory' && item.key === directoryKey) await blobs.removeBinned(item);
      log(`removed the files of the checkpoint ${versionName(model, step)} from the bin`);
    }
  }
}
