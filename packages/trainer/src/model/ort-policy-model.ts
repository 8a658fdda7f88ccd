import assert from 'node:assert/strict';
import { GgufFile } from '@trainyard/native';
import { TrainerError } from '../errors.ts';
import type { Architecture } from './architecture.ts';
import { readArchitecture } from './architecture.ts';
import { Activations } from './activations.ts';
import { BlockCompute } from './block-compute.ts';
import { ModelSessions } from './block-sessions.ts';
import { ComputeTurns } from './compute-turns.ts';
import { HeadCompute } from './head-compute.ts';
import { initialLoraParameters } from './lora-parameters.ts';
import type {
  ComputeOptions,
  ForwardOptions,
  ForwardResult,
  LoraConfig,
  LoraParameters,
  PackedRow,
  PolicyModel,
} from './policy-model.ts';
import { DEFAULT_LORA_CONFIG } from './policy-model.ts';
import type { RowPlan, RowPlanOptions } from './row-plan.ts';
import { planRow } from './row-plan.ts';
import type { ModelWeights } from './weights.ts';
import { readWeights } from './weights.ts';
import { Workspace } from './workspace.ts';

export interface OrtPolicyModelOptions extends Partial<RowPlanOptions> {
  /** Default: rank 8, alpha 16, every linear layer, seed 0. */
  readonly lora?: LoraConfig;
  /** Threads of one graph run. Default 2. */
  readonly numThreads?: number;
  /** What activations kept for backward may take; layers that do not fit are computed again. Default 2 GiB. */
  readonly memoryBudgetBytes?: number;
}

const DEFAULT_MEMORY_BUDGET_BYTES = 2 * 1024 ** 3;
// 256 took 15 % more processor time, 1024 up to 5 % less, but the cores are then held for up to 100 ms.
const DEFAULT_CHUNK_TOKENS = 512;
// 64 to 256 are equal within the noise of a busy machine.
const DEFAULT_QUERY_BLOCK_TOKENS = 128;

interface KeptForward {
  readonly row: PackedRow;
  readonly plan: RowPlan;
  readonly activations: Activations;
  /** [N, H] ∂logprob/∂(final hidden state of its source). */
  readonly direction: Float32Array;
}

/** A language model on ONNX Runtime: small graphs run layer by layer, weights fed, float32 throughout. */
export class OrtPolicyModel implements PolicyModel {
  readonly architecture: Architecture;
  readonly lora: LoraParameters;
  readonly #weights: ModelWeights;
  readonly #sessions: ModelSessions;
  readonly #blocks: readonly BlockCompute[];
  readonly #head: HeadCompute;
  readonly #planOptions: RowPlanOptions;
  readonly #memoryBudgetBytes: number;
  readonly #workspace = new Workspace();
  #kept: KeptForward | null = null;

  constructor(architecture: Architecture, weights: ModelWeights, options: OrtPolicyModelOptions = {}) {
    const lora = initialLoraParameters(architecture, options.lora ?? DEFAULT_LORA_CONFIG);
    const sessions = new ModelSessions(architecture, lora.config, options.numThreads ?? 2);
    this.architecture = architecture;
    this.lora = lora;
    this.#weights = weights;
    this.#sessions = sessions;
    this.#blocks = weights.blocks.map((block, layer) => new BlockCompute(architecture, block, lora, layer, sessions));
    this.#head = new HeadCompute(architecture, weights, sessions);
    this.#memoryBudgetBytes = options.memoryBudgetBytes ?? DEFAULT_MEMORY_BUDGET_BYTES;
    this.#planOptions = {
      chunkTokens: options.chunkTokens ?? DEFAULT_CHUNK_TOKENS,
      queryBlockTokens: options.queryBlockTokens ?? DEFAULT_QUERY_BLOCK_TOKENS,
    };
  }

  /**
   * Reads a GGUF file of any precision; use the one that samples, so that both sides compute the same policy.
   * @throws {TrainerError} `trainer.architecture_unsupported`
   */
  static async load(options: OrtPolicyModelOptions & { readonly modelPath: string }): Promise<OrtPolicyModel> {
    const file = GgufFile.open(options.modelPath);
    try {
      const architecture = readArchitecture(file);
      return new OrtPolicyModel(architecture, readWeights(file, architecture, options.lora), options);
    } finally {
      file.close();
    }
  }

  async forward(row: PackedRow, options: ForwardOptions = {}): Promise<ForwardResult> {
    const { withoutAdapter = false, keepForBackward = false } = options;
    assert(!(withoutAdapter && keepForBackward), 'the base model alone has no adapter to differentiate');
    this.#refuseUnknownTokens(row);
    this.#kept = null;
    const plan = planRow(row, this.architecture, this.#weights.ropeFactors, this.#planOptions);
    const activations = new Activations(
      this.#workspace,
      this.architecture,
      plan.numTokens,
      keepForBackward ? this.#memoryBudgetBytes : null,
    );
    const turns = new ComputeTurns(options);
    try {
      embedTokens(row.tokenIds, this.#weights.embedding, activations.layerInput(0));
      for (const [layer, block] of this.#blocks.entries()) {
        const x = activations.layerInput(layer);
        const y = activations.layerInput(layer + 1);
        const { q, k, v, o, ...intermediates } = activations.intermediates(layer);
        block.loadAdapter(withoutAdapter);
        await block.attentionInput(plan, turns, x, { q, k, v });
        await block.attention(plan, turns, { q, k, v }, { o });
        await block.output(plan, turns, { x, o }, activations.isKept(layer) ? { y, intermediates } : { y });
      }
      const { direction, ...result } = await this.#head.forward(
        row,
        turns,
        activations.layerInput(this.#blocks.length),
        keepForBackward,
      );
      if (direction !== null) this.#kept = { row, plan, activations, direction };
      return result;
    } finally {
      turns.finish();
    }
  }

  async backward(lossGradient: Float32Array, options: ComputeOptions = {}): Promise<void> {
    assert(this.#kept !== null, 'backward needs a forward with keepForBackward before it');
    const { row, plan, activations, direction } = this.#kept;
    assert.equal(lossGradient.length, row.targets.length, 'one ∂loss/∂logprob for each trained token');
    this.#kept = null;
    const turns = new ComputeTurns(options);
    try {
      const gradient = activations.gradients();
      scatterDirections(row.sources, direction, lossGradient, gradient.dy);
      for (const [layer, block] of [...this.#blocks.entries()].reverse()) {
        const x = activations.layerInput(layer);
        const { q, k, v, o, ...intermediates } = activations.intermediates(layer);
        if (!activations.isKept(layer)) {
          await block.attentionInput(plan, turns, x, { q, k, v });
          await block.attention(plan, turns, { q, k, v }, { o });
          await block.output(plan, turns, { x, o }, { intermediates });
        }
        const { dy, residual, dO, dq, dk, dv } = gradient;
        await block.outputBackward(plan, turns, { ...intermediates, o, dy }, { dx: residual, dO });
        // Below the first layer there are only frozen embeddings.
        const isFirst = layer === 0;
        if (isFirst && !block.adaptsAttention) break;
        await block.attentionBackward(plan, turns, { q, k, v, dO }, { dq, dk, dv });
        await block.attentionInputBackward(plan, turns, { x, dq, dk, dv, residual }, { dx: isFirst ? null : dy });
      }
    } finally {
      turns.finish();
    }
  }

  /** Bytes of activation buffers now held. */
  get activationBytes(): number {
    return this.#workspace.sizeBytes;
  }

  close(): void {
    this.#kept = null;
    this.#workspace.clear();
    this.#sessions.close();
  }

  #refuseUnknownTokens(row: PackedRow): void {
    const { vocabSize } = this.architecture;
    for (const tokenIds of [row.tokenIds, row.targets]) {
      const bad = tokenIds.find((id) => id < 0 || id >= vocabSize);
      if (bad !== undefined) {
        throw new TrainerError(
          'trainer.token_out_of_range',
          `token ids must be in [0, ${vocabSize}), the model's vocabulary; got ${bad}`,
        );
      }
    }
  }
}

/** embedding [V, H] → into [T, H] */
function embedTokens(tokenIds: Int32Array, embedding: Float32Array, into: Float32Array): void {
  const columns = into.length / tokenIds.length;
  tokenIds.forEach((id, token) => into.set(embedding.subarray(id * columns, (id + 1) * columns), token * columns));
}

/** dy [T, H] = Σ over trained tokens i of lossGradient[i] · direction[i], added to the row of i's source. */
function scatterDirections(
  sources: Int32Array,
  direction: Float32Array,
  lossGradient: Float32Array,
  dy: Float32Array,
): void {
  const columns = direction.length / sources.length;
  dy.fill(0);
  sources.forEach((source, i) => {
    const weight = lossGradient[i]!;
    for (let j = 0; j < columns; j++) dy[source * columns + j]! += weight * direction[i * columns + j]!;
  });
}
