import { strict as assert } from 'node:assert';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { linearNames, type LoraConfig } from '@trainyard/transformer';
import {
  checkpointDigest,
  readAdapter,
  readCheckpoint,
  writeCheckpointFiles,
  writeTrainingState,
} from '../checkpoint/checkpoint.ts';
import { TrainerError } from '../contract/errors.ts';
import { initialLoraParameters } from '../model/lora-parameters.ts';
import type {
  ComputeGate,
  ComputeOptions,
  ForwardResult,
  LoraParameters,
  PackedRow,
  TrainablePolicy,
} from '../model/policy-model.ts';
import { freshOptimizerState, type OptimizerConfig, type OptimizerState } from '../optimizer/adamw.ts';
import { requireFinite, updateWeights } from '../optimizer/weight-update.ts';
import type {
  AdapterVersion,
  CallOptions,
  LearnerCapabilities,
  LearnerForwardOptions,
  LearnerModel,
  LearnerSession,
  LoadOptions,
  RowBackward,
  RowForward,
} from './learner-session.ts';
import type { VersionFolders } from './version-folders.ts';

export interface EmbeddedLearnerOptions {
  /** Its adapter is the session's; closed with it. */
  readonly policy: TrainablePolicy;
  readonly versions: VersionFolders;
  /** Default: the cores are always available. */
  readonly gate?: ComputeGate;
}

type ComputeTurn = ComputeOptions & { readonly gate: ComputeGate };

const FREE_GATE: ComputeGate = { acquire: async () => {}, release: () => {}, isWanted: false };

/** Larger ranks cost more than the adapted layers. */
const MAX_RANK = 256;

/** Shortest text in which a token attends to another one. */
const TRIAL: PackedRow = {
  tokenIds: Int32Array.of(0, 1),
  positions: Int32Array.of(0, 1),
  parents: Int32Array.of(-1, 0),
  sources: Int32Array.of(1),
  targets: Int32Array.of(0),
};

/** A learner in this process, which computes between two turns of the gate. */
export class EmbeddedLearner implements LearnerSession {
  readonly capabilities: LearnerCapabilities;
  readonly #policy: TrainablePolicy;
  readonly #versions: VersionFolders;
  readonly #gate: ComputeGate;
  #optimizer: OptimizerState;
  /** The gradients were used by a step or are invalid. */
  #isSpent = true;
  /** Last reference. */
  #reference: { readonly name: string; readonly lora: LoraParameters } | null = null;

  constructor({ policy, versions, gate = FREE_GATE }: EmbeddedLearnerOptions) {
    this.capabilities = {
      losses: 'any',
      targets: linearNames(policy.architecture),
      targetSets: 'any',
      maxRank: MAX_RANK,
      alpha: null,
      hasOwnShapes: true,
      entropies: 'gradients',
      reference: 'versions',
      replay: true,
      // Backward's data of a row is the largest thing in memory.
      maxKeptRows: 1,
      initialScale: 1,
    };
    this.#policy = policy;
    this.#versions = versions;
    this.#gate = gate;
    this.#optimizer = freshOptimizerState(policy.lora.tensors);
  }

  get model(): LearnerModel {
    return this.#policy.architecture;
  }

  get lora(): LoraConfig {
    return this.#policy.lora.config;
  }

  get numSteps(): number {
    return this.#optimizer.numSteps;
  }

  async forward(
    rows: readonly PackedRow[],
    { under = 'trained', keep = 'nothing', signal }: LearnerForwardOptions = {},
  ): Promise<readonly RowForward[]> {
    const { maxKeptRows } = this.capabilities;
    assert(keep === 'nothing' || (under === 'trained' && rows.length <= maxKeptRows), 'more is kept than can be');
    const results: RowForward[] = [];
    const compute = async (turn: ComputeOptions): Promise<void> => {
      for (const row of rows) {
        const forward = await this.#policy.forward(row, {
          ...turn,
          withoutAdapter: under === 'base',
          keepForBackward: keep !== 'nothing',
          keepForEntropy: keep === 'entropyGradients',
        });
        results.push(owned(forward));
      }
    };
    await this.#cancellable(signal, async (turn) => {
      if (typeof under === 'string') await compute(turn);
      else await this.#under(await this.#referenceAdapter(under.version), async () => await compute(turn));
    });
    return results;
  }

  async backward(gradients: readonly RowBackward[], { signal }: CallOptions = {}): Promise<void> {
    if (this.#isSpent) this.#clearGradients();
    // Until success: partly added gradients are unusable.
    this.#isSpent = true;
    await this.#cancellable(signal, async (turn) => {
      for (const { lossGradient, entropyGradient } of gradients)
        await this.#policy.backward(lossGradient, {
          ...turn,
          ...(entropyGradient === null ? {} : { entropyGradient }),
        });
    });
    this.#isSpent = false;
  }

  async step(config: OptimizerConfig, { signal }: CallOptions = {}): Promise<{ readonly gradNorm: number }> {
    if (this.#isSpent) this.#clearGradients();
    const gradNorm = await this.#cancellable(
      signal,
      async (turn) => await updateWeights(this.#policy.lora.tensors, this.#optimizer, config, turn),
    );
    this.#isSpent = true;
    return { gradNorm };
  }

  async save(
    name: string,
    { isServed = true, metrics = {} }: { isServed?: boolean; metrics?: Readonly<Record<string, number>> } = {},
  ): Promise<AdapterVersion> {
    const { lora, architecture } = this.#policy;
    if (isServed) await this.#tryWeights();
    try {
      return await this.#versions.write(name, (directory) => {
        const digest = isServed
          ? writeCheckpointFiles(directory, { lora, architecture, optimizer: this.#optimizer, metrics })
          : writeTrainingState(directory, { lora, architecture, optimizer: this.#optimizer });
        return { name, digest, sizeBytes: sizeOf(directory) };
      });
    } finally {
      this.#forgetReference(name);
    }
  }

  async find(name: string): Promise<AdapterVersion | null> {
    const directory = await this.#versions.find(name);
    return directory === null ? null : { name, digest: checkpointDigest(directory) };
  }

  async load(name: string | null, { jobKind, withFreshOptimizer = false }: LoadOptions): Promise<void> {
    const { lora, architecture } = this.#policy;
    const directory = name === null ? null : await this.#folderOf(name);
    this.#isSpent = true;
    if (directory !== null) {
      const kept = readCheckpoint(directory, lora, jobKind);
      this.#optimizer = withFreshOptimizer ? freshOptimizerState(lora.tensors, jobKind) : kept;
      return;
    }
    const fresh = initialLoraParameters(architecture, lora.config);
    lora.tensors.forEach(({ value }, i) => value.set(fresh.tensors[i]!.value));
    this.#optimizer = freshOptimizerState(lora.tensors, jobKind);
  }

  async discard(name: string): Promise<void> {
    try {
      await this.#versions.remove(name);
    } finally {
      this.#forgetReference(name);
    }
  }

  async close(): Promise<void> {
    this.#policy.close();
  }

  async #folderOf(name: string): Promise<string> {
    const directory = await this.#versions.find(name);
    if (directory !== null) return directory;
    throw new TrainerError('trainer.checkpoint_unreadable', `the adapter version ${name} does not exist`);
  }

  async #referenceAdapter(name: string): Promise<LoraParameters> {
    if (this.#reference?.name === name) return this.#reference.lora;
    const directory = await this.#folderOf(name);
    const lora = initialLoraParameters(this.#policy.architecture, this.lora);
    readAdapter(directory, lora, checkpointDigest(directory));
    this.#reference = { name, lora };
    return lora;
  }

  /** The name has another version or none. */
  #forgetReference(name: string): void {
    if (this.#reference?.name === name) this.#reference = null;
  }

  /**
   * Tries the weights on a short text: large finite weights can give NaN everywhere. After the last step nothing
   * else would show that.
   *
   * @throws {TrainerError} `trainer.non_finite`
   */
  async #tryWeights(): Promise<void> {
    const [output] = await this.forward([TRIAL]);
    requireFinite('a log-probability under the new weights', output!.logprobs);
  }

  #clearGradients(): void {
    for (const { gradient } of this.#policy.lora.tensors) gradient.fill(0);
  }

  /** Errors after an abort become `trainer.cancelled`. */
  async #cancellable<Result>(
    signal: AbortSignal | undefined,
    work: (turn: ComputeTurn) => Promise<Result>,
  ): Promise<Result> {
    try {
      signal?.throwIfAborted();
      return await work({ gate: this.#gate, ...(signal === undefined ? {} : { signal }) });
    } catch (error) {
      if (signal?.aborted) throw new TrainerError('trainer.cancelled', 'the call was cancelled', { cause: error });
      throw error;
    }
  }

  /** Restores the policy's own adapter afterwards. */
  async #under(other: LoraParameters, compute: () => Promise<void>): Promise<void> {
    const { tensors } = this.#policy.lora;
    const own = tensors.map(({ value }) => value.slice());
    try {
      tensors.forEach(({ value }, i) => value.set(other.tensors[i]!.value));
      await compute();
    } finally {
      tensors.forEach(({ value }, i) => value.set(own[i]!));
    }
  }
}

/** The model's next row overwrites the original. */
function owned({ logprobs, entropies }: ForwardResult): RowForward {
  return { logprobs: logprobs.slice(), entropies: entropies.slice() };
}

function sizeOf(directory: string): number {
  return readdirSync(directory).reduce((total, name) => total + statSync(join(directory, name)).size, 0);
}
