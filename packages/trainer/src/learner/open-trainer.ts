import { type DecoderWeights, openWeights } from '@trainyard/decoder';
import { GgufFile, openBf16Library, returnMemoryOf } from '@trainyard/native';
import type { ChatTemplate } from '@trainyard/tokenizer';
import {
  type Architecture,
  type LoraConfig,
  type ModelWeights,
  readWeights,
  readWeightsExceptMatrices,
  type StreamedWeights,
  streamWeights,
  memoryProblem,
  type WeightsMode,
  weightsModeOf,
  type WeightsSetting,
  Workspace,
} from '@trainyard/transformer';
import { DeterministicPolicy } from '../deterministic/deterministic-policy.ts';
import { RowDecoder } from '../deterministic/row-decoder.ts';
import { Bf16BlockMatrices } from '../lanes/bf16-matrices.ts';
import { LaneThreads } from '../lanes/lane-threads.ts';
import { OrtPolicyModel } from '../lanes/ort-policy-model.ts';
import { totalTrainingBytes, trainingMemory } from '../lanes/training-memory.ts';
import { TrainerError } from '../contract/errors.ts';
import type { ComputeGate, TrainablePolicy } from '../model/policy-model.ts';
import { EmbeddedLearner } from './embedded-learner.ts';
import type { LearnerSession } from './learner-session.ts';
import { type OpenedTemplate, openTemplate } from './open-template.ts';
import type { VersionFolders } from './version-folders.ts';

/** Weights are read once and serve successive jobs. */
export interface Trainer {
  readonly modelPath: string;
  readonly template: ChatTemplate;
  /** Invalidates the previous policy. */
  policy(lora: LoraConfig): Promise<TrainablePolicy>;
  /** A session over a policy. */
  learner(
    lora: LoraConfig,
    parts: { readonly versions: VersionFolders; readonly gate?: ComputeGate },
  ): Promise<LearnerSession>;
  close(): void;
}

export interface TrainerOptions {
  readonly modelPath: string;
  /** Threads that compute. */
  readonly numThreads: number;
  /** Must equal the sampler's, or prompts would differ. */
  readonly allowsControlTokens?: boolean;
  /**
   * Log-probabilities equal the sampler's to the bit, at the cost of an extra pass per row and, unless they are
   * streamed, a second copy of the weights. Default false.
   */
  readonly isDeterministic?: boolean;
  /** Library for matrices and their inputs in bf16, which are always resident. Default null: single precision. */
  readonly oneDnnPath?: string | null;
  /**
   * `streamed` keeps matrices in the file, with the same bits, for a few percent of speed. `auto` decides by the
   * machine's memory. Default `resident`.
   */
  readonly weights?: WeightsSetting;
}

/**
 * Reads a GGUF model file: weights as float32, vocabulary and chat template.
 *
 * @throws {TrainerError} `trainer.architecture_unsupported`, `trainer.memory_full`; {NativeError}
 * `native.gguf_malformed`, `native.model_unreadable`; {TokenizerError} `tokenizer.no_template`, `tokenizer.unknown_vocabulary`
 */
export async function openTrainer(options: TrainerOptions): Promise<Trainer> {
  const { modelPath, numThreads, isDeterministic = false } = options;
  // Comes first, to refuse untrainable models before anything else is read.
  const opened = openTemplate(options);
  const { template, architecture } = opened;
  const { weights, bf16, file } = readModel(opened, options);
  let current: TrainablePolicy | null = null;
  // Compiling its graphs and rounding the vocabulary takes half a second, so it is reused.
  let own: OrtPolicyModel | null = null;
  let rows: RowDecoder | null = null;
  const workspace = new Workspace();
  const threads = new LaneThreads();
  const policy = async (lora: LoraConfig): Promise<TrainablePolicy> => {
    if (current !== null && current === own && own.restartAdapter(lora)) return current;
    current?.close();
    const matrices = bf16 === null ? {} : { bf16 };
    own = new OrtPolicyModel(architecture, weights, { lora, numThreads, workspace, threads, ...matrices });
    if (isDeterministic) rows ??= new RowDecoder(decoderWeights(architecture, options, file !== null), numThreads);
    current = rows === null ? own : new DeterministicPolicy(own, rows);
    return current;
  };
  return {
    modelPath,
    template,
    policy,
    learner: async (lora, parts) => new EmbeddedLearner({ policy: await policy(lora), ...parts }),
    close: () => {
      current?.close();
      current = null;
      threads.close();
      rows?.close();
      rows = null;
      bf16?.close();
      file?.close();
      workspace.clear();
      opened.close();
      returnMemoryOf(weights);
    },
  };
}

/** Call before the first model is read. @throws {NativeError} as `openBf16Library` */
export function requireBf16(oneDnnPath: string): void {
  openBf16Library(oneDnnPath, 1);
}

interface ReadModel {
  readonly weights: ModelWeights | StreamedWeights;
  readonly bf16: Bf16BlockMatrices | null;
  /** Open as long as streamed weights are used. */
  readonly file: GgufFile | null;
}

/** @param opened closed on an error */
function readModel(opened: OpenedTemplate, options: TrainerOptions): ReadModel {
  const { oneDnnPath = null, weights = 'resident' } = options;
  const { modelPath, architecture } = opened;
  using kept = new DisposableStack();
  kept.defer(() => opened.close());
  const file = kept.use(GgufFile.open(modelPath));
  const done = (read: ReadModel): ReadModel => {
    kept.move();
    if (read.file === null) file.close();
    return read;
  };
  if (oneDnnPath !== null) {
    const unsupported =
      architecture.experts !== null
        ? 'experts'
        : ((architecture.convolution && 'convolutions') ?? (architecture.deltaNet && 'gated delta nets'));
    if (unsupported !== null)
      throw new TrainerError(
        'trainer.architecture_unsupported',
        `precision bf16 does not support models with ${unsupported}: use exact or strict`,
      );
    // Each thread has its own library and computes alone: lanes are the threads of a pass.
    const library = openBf16Library(oneDnnPath, 1);
    const others = readWeightsExceptMatrices(file, architecture);
    return done({ weights: others, bf16: new Bf16BlockMatrices(file, architecture, library), file: null });
  }
  const mode = weightsModeOf(weights, file);
  requireMemory(file, architecture, mode, options);
  if (mode === 'streamed') return done({ weights: streamWeights(file, architecture), bf16: null, file });
  return done({ weights: readWeights(file, architecture), bf16: null, file: null });
}

/** Tokens of a short row: longer ones may still fail, but a model that is refused could train nothing. */
const LEAST_ROW_TOKENS = 256;

/** @throws {TrainerError} `trainer.memory_full` */
function requireMemory(
  file: GgufFile,
  architecture: Architecture,
  mode: WeightsMode,
  { numThreads, isDeterministic = false }: TrainerOptions,
): void {
  const isTied = !file.tensors.has('output.weight');
  const needOf = (weights: WeightsMode) => {
    const memory = trainingMemory(architecture, { weights, isTied, numTokens: LEAST_ROW_TOKENS, numThreads });
    return totalTrainingBytes(memory) + (isDeterministic ? memory.weightBytes : 0);
  };
  const problem = memoryProblem(mode, { resident: needOf('resident'), streamed: needOf('streamed') });
  if (problem !== null) throw new TrainerError('trainer.memory_full', `cannot train: ${problem}`);
}

/** The sampler's weights: its bits are those of every form but bf16. */
function decoderWeights(
  architecture: Architecture,
  { modelPath, numThreads }: TrainerOptions,
  isStreamed: boolean,
): DecoderWeights {
  using opened = new DisposableStack();
  const file = opened.use(GgufFile.open(modelPath));
  const { weights, keepsFile } = openWeights(file, architecture, {
    numThreads,
    weights: isStreamed ? 'streamed' : 'resident',
  });
  if (keepsFile) opened.move();
  return weights;
}
