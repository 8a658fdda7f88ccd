import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { GgufFile } from '@trainyard/native';
import {
  type Architecture,
  defaultLora,
  embedTokens,
  expertsIn,
  hasDeltaNet,
  type LoraConfig,
  MatrixRows,
  type ModelWeights,
  readWeights,
  sharedDoubles,
  sharedFloats,
  type StreamedWeights,
  streamWeights,
  type WeightsMode,
  Workspace,
} from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import type { GradientBuffers } from './activations.ts';
import { Activations } from './activations.ts';
import type { AdapterGradients } from './block-adapter.ts';
import type { Bf16BlockMatrices } from './bf16-matrices.ts';
import { BlockAdapter } from './block-adapter.ts';
import type { GraphTiming } from './lane-compute.ts';
import type { LaneStep, PassLayers } from './lane-schedule.ts';
import { backwardSchedule, forwardSchedule, withStreamedWeights } from './lane-schedule.ts';
import { LaneThreads } from './lane-threads.ts';
import { Lanes } from './lanes.ts';
import { scatterDirections } from '../model/source-gradient.ts';
import { initialLoraParameters } from '../model/lora-parameters.ts';
import type {
  BackwardOptions,
  ComputeOptions,
  ForwardOptions,
  ForwardResult,
  LoraParameters,
  PackedRow,
  PolicyModel,
} from '../model/policy-model.ts';
import type { RowPlanOptions } from './row-plan.ts';
import { planRow } from './row-plan.ts';
import { type StreamedBlocks, streamedBlocks, weightBuffers } from './streamed-blocks.ts';
import { MAX_LANES, memoryBudget } from './training-memory.ts';
import { trainableArchitecture } from '../model/trainable-architecture.ts';

export interface OrtPolicyModelOptions extends Partial<RowPlanOptions> {
  /** Default: rank 8, alpha 16, every linear layer, seed 0. */
  readonly lora?: LoraConfig;
  /** Default 2. */
  readonly numThreads?: number;
  /**
   * Block matrices for `readWeightsExceptMatrices`: they, the vocabulary, and the inputs of both are then in bf16.
   * Must outlive this object. Default: single precision.
   */
  readonly bf16?: Bf16BlockMatrices;
  /** Activations kept for backward; layers that do not fit are recomputed. Default {@link memoryBudget}. */
  readonly memoryBudgetBytes?: number;
  /** Shared by policies that compute one at a time. Default: its own. */
  readonly workspace?: Workspace;
  /** Threads for successive policies. Default: its own, which end with it. */
  readonly threads?: LaneThreads;
  /** Called by all threads. */
  readonly onRun?: (run: GraphTiming) => void;
}

// 512 is equally fast, but holds the cores twice as long; 128 took 7–17 % longer.
const DEFAULT_CHUNK_TOKENS = 256;
// 32 to 128 are equal within 3 %.
const DEFAULT_QUERY_BLOCK_TOKENS = 64;

interface KeptForward {
  readonly row: PackedRow;
  readonly activations: Activations;
  /** [N, H] ∂logprob/∂(final hidden state of its source). */
  readonly direction: Float32Array;
  /** [N, H] ∂entropy/∂(the same), if requested. */
  readonly entropyDirection: Float32Array | null;
  readonly gradients: GradientBuffers;
  /** Gradients by lane and layer. */
  readonly adapterGradients: readonly (readonly AdapterGradients[])[];
}

/** Small graphs run layer by layer with weights as inputs, in float32 unless the matrices are in bf16. */
export class OrtPolicyModel implements PolicyModel {
  readonly architecture: Architecture;
  readonly lora: LoraParameters;
  readonly #weights: ModelWeights | StreamedWeights;
  readonly #embedding: MatrixRows;
  /** Null: all weights are in memory. */
  readonly #streamed: StreamedBlocks | null;
  readonly #adapters: readonly BlockAdapter[];
  readonly #lanes: Lanes;
  readonly #planOptions: RowPlanOptions;
  readonly #memoryBudgetBytes: number;
  readonly #onRun: (run: GraphTiming) => void;
  readonly #workspace: Workspace;
  readonly #ownsWorkspace: boolean;
  /** Null if the pool is shared. */
  readonly #ownThreads: LaneThreads | null;
  /** File of streamed weights, if opened by this class. */
  #file: GgufFile | null = null;
  #kept: KeptForward | null = null;
  #isClosed = false;
  /** True after a cancelled or failed pass: the state of the threads is unknown. */
  #isInterrupted = false;

  /** @param weights streamed: their file stays open until after this object is closed; results are the same bits */
  constructor(
    architecture: Architecture,
    weights: ModelWeights | StreamedWeights,
    options: OrtPolicyModelOptions = {},
  ) {
    const lora = initialLoraParameters(architecture, options.lora ?? defaultLora(architecture));
    const numThreads = options.numThreads ?? 2;
    const numLanes = Math.min(numThreads, MAX_LANES);
    this.architecture = architecture;
    this.#workspace = options.workspace ?? new Workspace();
    this.#ownsWorkspace = options.workspace === undefined;
    const threads = options.threads ?? new LaneThreads();
    this.#ownThreads = options.threads === undefined ? threads : null;
    this.lora = lora;
    this.#weights = weights;
    this.#embedding = new MatrixRows(weights.embedding, architecture.hiddenSize);
    this.#adapters = weights.blocks.map((block, layer) => new BlockAdapter(architecture, block.matrices, lora, layer));
    this.#streamed = 'files' in weights ? streamedBlocks(weights, numLanes) : null;
    const isStreamed = this.#streamed !== null;
    this.#lanes = new Lanes(
      {
        architecture,
        lora: lora.config,
        numThreads: Math.floor(numThreads / numLanes),
        blocks: weights.blocks.map((block, layer) => this.#adapters[layer]!.parameters(block, isStreamed)),
        outputNorm: weights.outputNorm,
        vocabulary: weights.output,
        bf16: options.bf16?.places ?? null,
        streamed: this.#streamed,
      },
      numLanes,
      threads,
    );
    this.#memoryBudgetBytes = options.memoryBudgetBytes ?? memoryBudget();
    this.#onRun = options.onRun ?? (() => {});
    this.#planOptions = {
      chunkTokens: options.chunkTokens ?? DEFAULT_CHUNK_TOKENS,
      queryBlockTokens: options.queryBlockTokens ?? DEFAULT_QUERY_BLOCK_TOKENS,
      hasFixedVocabularyParts: options.bf16 !== undefined,
    };
  }

  /**
   * Reads a GGUF file of any precision; use the sampler's, so that both compute the same policy.
   *
   * @param options.weights `streamed`: large matrices stay in the file, which stays open. Default `resident`
   * @throws {TrainerError} `trainer.architecture_unsupported`
   */
  static async load(
    options: OrtPolicyModelOptions & { readonly modelPath: string; readonly weights?: WeightsMode },
  ): Promise<OrtPolicyModel> {
    const file = GgufFile.open(options.modelPath);
    let kept: GgufFile | null = null;
    try {
      const architecture = trainableArchitecture(file);
      if (options.weights !== 'streamed')
        return new OrtPolicyModel(architecture, readWeights(file, architecture, options.lora), options);
      const model = new OrtPolicyModel(architecture, streamWeights(file, architecture), options);
      kept = file;
      model.#file = file;
      return model;
    } finally {
      if (kept === null) file.close();
    }
  }

  async forward(row: PackedRow, options: ForwardOptions = {}): Promise<ForwardResult> {
    const { withoutAdapter = false, keepForBackward = false, keepForEntropy = false } = options;
    assert(!(withoutAdapter && keepForBackward), 'the base model alone has no adapter to differentiate');
    assert(keepForBackward || !keepForEntropy, 'keepForEntropy adds to keepForBackward');
    assert.equal(row.sources.length, row.targets.length, 'each trained token has one source');
    this.#refuseUnknownTokens(row);
    this.#kept = null;
    this.#workspace.begin();
    const { hiddenSize } = this.architecture;
    const model = { architecture: this.architecture, ropeFactors: this.#weights.ropeFactors };
    const plan = planRow(row, model, this.#planOptions, this.#lanes.length);
    const activations = new Activations(
      this.#workspace,
      this.architecture,
      plan.numTokens,
      keepForBackward ? this.#memoryBudgetBytes : null,
    );
    const numTargets = row.targets.length;
    const head = {
      sources: row.sources,
      targets: row.targets,
      replay: row.replay ?? null,
      logprobs: sharedFloats(numTargets),
      entropies: sharedFloats(numTargets),
      direction: keepForBackward ? this.#workspace.take('head.direction', numTargets * hiddenSize) : null,
      entropyDirection: keepForEntropy ? this.#workspace.take('head.entropyDirection', numTargets * hiddenSize) : null,
      partial: plan.lanes.map((_, lane) => ({
        logPartition: sharedDoubles(numTargets),
        meanLogit: sharedDoubles(numTargets),
        mean: this.#workspace.take(`head.mean.${lane}`, keepForBackward ? numTargets * hiddenSize : 0),
        product: this.#workspace.take(`head.product.${lane}`, keepForEntropy ? numTargets * hiddenSize : 0),
      })),
    };
    const gradients = keepForBackward ? activations.gradients(this.#lanes.length) : null;
    const adapterGradients = keepForBackward ? this.#adapterGradients() : [];
    const layers = [...this.#adapters.keys()];
    const inputs = [...layers, layers.length].map((layer) => activations.layerInput(layer));
    const intermediates = layers.map((layer) => activations.intermediates(layer));
    const experts = activations.experts();
    // Layers leave out tokens that nothing trained depends on.
    for (const { routing } of intermediates) routing?.chosen.fill(-1);
    const weights = this.#streamed === null ? null : weightBuffers(this.#streamed, this.#workspace);
    this.#lanes.begin((lane) => ({
      lane,
      numLanes: this.#lanes.length,
      share: plan.lanes[lane]!,
      inputs,
      intermediates,
      head,
      experts,
      givenExperts: options.experts ?? null,
      weights,
      backward: gradients === null ? null : { gradients, adapters: adapterGradients[lane]! },
    }));
    for (const adapter of this.#adapters) adapter.load(withoutAdapter);
    embedTokens(row.tokenIds, this.#embedding, inputs[0]!, this.architecture.embeddingScale);
    await this.#run(forwardSchedule(this.#passLayers(activations)), options);
    const { logprobs, entropies, direction, entropyDirection } = head;
    if (direction !== null && gradients !== null)
      this.#kept = { row, activations, direction, entropyDirection, gradients, adapterGradients };
    return { logprobs, entropies };
  }

  async backward(lossGradient: Float32Array, options: BackwardOptions = {}): Promise<void> {
    assert(this.#kept !== null, 'backward needs a forward with keepForBackward before it');
    const { row, activations, direction, entropyDirection, gradients, adapterGradients } = this.#kept;
    const { entropyGradient } = options;
    assert.equal(lossGradient.length, row.targets.length, 'one ∂loss/∂logprob for each trained token');
    this.#kept = null;
    const bySource = [{ direction, weights: lossGradient }];
    if (entropyGradient !== undefined) {
      assert(entropyDirection !== null, 'a gradient of entropies needs a forward with keepForEntropy');
      bySource.push({ direction: entropyDirection, weights: entropyGradient });
    }
    scatterDirections(row.sources, bySource, gradients.dy);
    // The last layer is computed only for sources; the other tokens get no gradient except through its attention.
    gradients.dq.fill(0);
    gradients.residual.fill(0);
    gradients.outputGate?.fill(0);
    gradients.deltaOutputs?.fill(0);
    gradients.convolutions?.[(this.architecture.numLayers - 1) % 2]!.fill(0);
    // Below the first layer there are only frozen embeddings.
    const endsBehindAttention = !this.#adapters[0]!.adaptsFirst;
    await this.#run(backwardSchedule(this.#passLayers(activations), { endsBehindAttention }), options);
    for (const lane of adapterGradients) this.#adapters.forEach((adapter, layer) => adapter.addGradients(lane[layer]!));
  }

  /**
   * Restarts with a fresh adapter, reusing threads and compiled graphs.
   *
   * @returns true on success; only for the original adapter configuration, and if no pass was cancelled or failed
   */
  restartAdapter(lora: LoraConfig): boolean {
    if (this.#isClosed || this.#isInterrupted || !isDeepStrictEqual(lora, this.lora.config)) return false;
    this.#kept = null;
    const fresh = initialLoraParameters(this.architecture, lora);
    this.lora.tensors.forEach(({ value, gradient }, i) => {
      value.set(fresh.tensors[i]!.value);
      gradient.fill(0);
    });
    return true;
  }

  get activationBytes(): number {
    return this.#workspace.sizeBytes;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#kept = null;
    if (this.#ownsWorkspace) this.#workspace.clear();
    this.#lanes.close();
    this.#ownThreads?.close();
    this.#file?.close();
  }

  async #run(steps: readonly LaneStep[], options: ComputeOptions): Promise<void> {
    this.#isInterrupted = true;
    const timings = await this.#lanes.run(this.#streamed === null ? steps : withStreamedWeights(steps), options);
    this.#isInterrupted = false;
    timings.forEach(this.#onRun);
  }

  #passLayers(activations: Activations): PassLayers {
    return {
      numLayers: this.architecture.numLayers,
      isKept: (layer) => activations.isKept(layer),
      hasExperts: (layer) => expertsIn(this.architecture, layer) !== null,
      hasStates: (layer) => hasDeltaNet(this.architecture, layer),
    };
  }

  #adapterGradients(): AdapterGradients[][] {
    return Array.from({ length: this.#lanes.length }, (_, lane) =>
      this.#adapters.map((adapter, layer) =>
        Object.fromEntries(
          Object.entries(adapter.gradientDims()).map(([name, dims]) => {
            const data = this.#workspace.take(`${name}.${layer}.lane${lane}`, dims[0] * dims[1]);
            return [name, { data: data.fill(0), dims }];
          }),
        ),
      ),
    );
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
