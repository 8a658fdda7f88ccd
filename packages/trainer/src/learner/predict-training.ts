import { GgufFile, NativeError } from '@trainyard/native';
import { type WeightsMode, weightsModeOf, type WeightsSetting } from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import { type TrainingMemory, trainingMemory } from '../lanes/training-memory.ts';
import { trainableArchitecture } from '../model/trainable-architecture.ts';

export interface TrainingPrediction {
  readonly weights: WeightsMode;
  readonly memory: TrainingMemory;
}

/** Predicts the memory of training from a model file's header; null for a file that cannot be read or trained. */
export function predictTraining(
  modelPath: string,
  options: {
    readonly weights: WeightsSetting;
    readonly numThreads: number;
    readonly numTokens: number;
    /** As in a policy. */
    readonly memoryBudgetBytes?: number;
  },
): TrainingPrediction | null {
  try {
    using file = GgufFile.open(modelPath);
    const architecture = trainableArchitecture(file);
    const weights = weightsModeOf(options.weights, file);
    const isTied = !file.tensors.has('output.weight');
    return { weights, memory: trainingMemory(architecture, { ...options, weights, isTied }) };
  } catch (error) {
    if (error instanceof NativeError || error instanceof TrainerError) return null;
    throw error;
  }
}
