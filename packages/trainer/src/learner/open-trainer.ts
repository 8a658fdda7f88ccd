import { DecoderGraphs } from '@trainyard/decoder';
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
  Workspace,
} from '@trainyard/transformer';
import { DeterministicPolicy } from '../deterministic/deterministic-policy.ts';
import { RowDecoder } from '../deterministic/row-decoder.ts';
import { Bf16BlockMatrices } from '../lanes/bf16-matrices.ts';
import { LaneThreads } from '../lanes/lane-threads.ts';
import { OrtPolicyModel, type WeightsMode } from '../lanes/ort-policy-model.ts';
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

/**
 * Reads a GGUF model file: weights as float32, vocabulary and chat template.
 *
 * @param options `numThreads` that compute; `isDeterministic`: log-probabilities equal the sampler's to the bit,
 * at the cost of an extra pass per row and a second copy of the weights (default false); `oneDnnPath`: library
 * for matrices and their inputs in bf16 (default null: single precision); `allowsControlTokens` must equal the
 * sampler's, or prompts would differ; `weights`: `streamed` keeps matrices in the file, at the same bits and a few
 * percent of speed (default `resident`; bf16 matrices are always resident)
 * @throws {TrainerError} `trainer.architecture_unsupported`; {NativeError} `native.gguf_malformed`,
 * `native.model_unreadable`; {TokenizerError} `tokenizer.no_template`, `tokenizer.unknown_vocabulary`
 */
export async function openTrainer(options: {
  readonly modelPath: string;
  readonly numThreads: number;
  readonly allowsControlTokens?: boolean;
  readonly isDeterministic?: boolean;
  readonly oneDnnPath?: string | null;
  readonly weights?: WeightsMode;
}): Promise<Trainer> {
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
    if (isDeterministic) rows ??= new RowDecoder(decoderGraphs(modelPath, architecture, numThreads), numThreads);
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
function readModel(
  opened: OpenedTemplate,
  { oneDnnPath = null, weights = 'resident' }: { readonly oneDnnPath?: string | null; readonly weights?: WeightsMode },
): ReadModel {
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
    // Each thread has its own library and computes alone: lanes are the threads of a pass.
    const library = openBf16Library(oneDnnPath, 1);
    const others = readWeightsExceptMatrices(file, architecture);
    return done({ weights: others, bf16: new Bf16BlockMatrices(file, architecture, library), file: null });
  }
  if (weights === 'streamed') return done({ weights: streamWeights(file, architecture), bf16: null, file });
  return done({ weights: readWeights(file, architecture), bf16: null, file: null });
}

function decoderGraphs(modelPath: string, architecture: Architecture, numThreads: number): DecoderGraphs {
  using file = GgufFile.open(modelPath);
  return new DecoderGraphs(file, architecture, numThreads);
}
