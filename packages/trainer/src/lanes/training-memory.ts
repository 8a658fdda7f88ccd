import {
  type Architecture,
  defaultLora,
  expertParameters,
  expertsIn,
  inputOf,
  type LoraConfig,
  lowWidth,
  machineMemory,
  type ProjectionName,
  projectionDims,
  projectionsIn,
  routingParameters,
  type WeightsMode,
  Workspace,
} from '@trainyard/transformer';
import { DeltaScratch } from '../delta-net/delta-scratch.ts';
import { loraShapes } from '../model/lora-parameters.ts';
import { Activations } from './activations.ts';
import { MAX_PART_VALUES } from './row-plan.ts';

export interface TrainingMemory {
  /** Frozen weights in memory. */
  readonly weightBytes: number;
  /** Activations and gradients of a row, and buffers of streamed weights. */
  readonly rowBytes: number;
  /** Adapter with its moments, temporaries of the lanes, runtime. */
  readonly processBytes: number;
}

/** Node with the libraries and a job's files, and the tokenizer per token of the vocabulary: measured. */
const RUNTIME_BYTES = 240e6;
const BYTES_PER_VOCABULARY_TOKEN = 800;
/** Value, gradient, two moments and the layout of the graphs, 4 bytes each. */
const BYTES_PER_ADAPTER_PARAMETER = 20;
/** Temporaries of a lane's backward over 256 tokens, in arrays of the width of a block: measured. */
const TEMPORARY_ROWS = 256 * 12;
/** Slack of a lane's scratch for a part of the vocabulary. */
const SCRATCH_SLACK = 1.25;

/**
 * Peak memory of the trainer's process, predicted from a file's header.
 *
 * @param options `numTokens` of the longest row; `memoryBudgetBytes` and `lora` as in a policy
 */
export function trainingMemory(
  architecture: Architecture,
  options: {
    readonly weights: WeightsMode;
    readonly isTied: boolean;
    readonly numTokens: number;
    readonly numThreads: number;
    readonly memoryBudgetBytes?: number;
    readonly lora?: LoraConfig;
  },
): TrainingMemory {
  const { weights, isTied, numTokens, numThreads, lora = defaultLora(architecture) } = options;
  const { vocabSize, hiddenSize } = architecture;
  const numLanes = Math.min(numThreads, MAX_LANES);
  const isStreamed = weights === 'streamed';
  const layers = Array.from({ length: architecture.numLayers }, (_, layer) => layer);
  const adapterParameters = sumOf(loraShapes(architecture, lora), ({ dims }) => dims[0] * dims[1]);
  const matrices = sumOf(layers, (layer) => matrixBytes(architecture, lora, projectionsIn(architecture, layer)));
  const temporaries = 4 * TEMPORARY_ROWS * (architecture.feedForwardSize + hiddenSize) * numLanes;
  const headBytes = isStreamed ? 4 * SCRATCH_SLACK * Math.min(vocabSize * hiddenSize, MAX_PART_VALUES) * numLanes : 0;
  const expertBytes = architecture.experts === null ? 0 : 4 * expertParameters(architecture);
  const experts = sumOf(layers, (layer) => expertBytes * (expertsIn(architecture, layer)?.count ?? 0));
  return {
    weightBytes:
      4 * routingParameters(architecture) +
      (isStreamed ? 0 : matrices + experts + 4 * vocabSize * hiddenSize * (isTied ? 1 : 2)),
    rowBytes:
      activationBytes(architecture, numTokens, numLanes, options.memoryBudgetBytes ?? memoryBudget()) +
      4 * adapterParameters * numLanes +
      (isStreamed
        ? 2 *
          matrixBytes(architecture, lora, [...new Set(layers.flatMap((layer) => projectionsIn(architecture, layer)))])
        : 0),
    processBytes:
      RUNTIME_BYTES +
      BYTES_PER_VOCABULARY_TOKEN * vocabSize +
      BYTES_PER_ADAPTER_PARAMETER * adapterParameters +
      temporaries +
      headBytes +
      (architecture.deltaNet === null ? 0 : numLanes * DeltaScratch.bytesFor(architecture.deltaNet, numTokens)) +
      (isStreamed ? SCRATCH_SLACK * expertBytes * numLanes : 0),
  };
}

export const totalTrainingBytes = ({ weightBytes, rowBytes, processBytes }: TrainingMemory): number =>
  weightBytes + rowBytes + processBytes;

/** With more lanes each has so few tokens that reading the weights shows; from eight threads on, runs get several. */
export const MAX_LANES = 4;
const MAX_MEMORY_BUDGET_BYTES = 2 * 1024 ** 3;
/** A service of a small model takes most of the rest of a machine that has just enough memory for it. */
const BUDGET_PART = 1 / 8;

/**
 * Activations that a row keeps for backward. Results have the same bits with any budget; a smaller one costs time.
 *
 * @param memoryBytes default: memory of the machine, or the limit of this process
 */
export const memoryBudget = (memoryBytes: number = machineMemory()): number =>
  Math.min(MAX_MEMORY_BUDGET_BYTES, BUDGET_PART * memoryBytes);

/** Matrices of a block, with the adapter's columns, and without experts. */
function matrixBytes(architecture: Architecture, lora: LoraConfig, names: readonly ProjectionName[]): number {
  return sumOf(names, (projection) => {
    const { in: inner, out } = projectionDims(architecture, projection);
    return 4 * out * (inner + lowWidth(inputOf(projection), lora));
  });
}

const sumOf = <Item>(items: readonly Item[], sizeOf: (item: Item) => number): number =>
  items.reduce((sum, item) => sum + sizeOf(item), 0);

/** Takes the buffers of a pass without touching their memory. */
function activationBytes(architecture: Architecture, numTokens: number, numLanes: number, budget: number): number {
  const workspace = new Workspace();
  const activations = new Activations(workspace, architecture, numTokens, budget);
  for (let layer = 0; layer <= architecture.numLayers; layer++) activations.layerInput(layer);
  for (let layer = 0; layer < architecture.numLayers; layer++) activations.intermediates(layer);
  activations.gradients(numLanes);
  activations.experts();
  const { sizeBytes } = workspace;
  workspace.clear();
  return sizeBytes;
}
