import { existsSync } from 'node:fs';

import { copyPath, copySource, predictTraining, totalTrainingBytes, type TrainingPrediction } from '@trainyard/trainer';
import type { ModelMemory } from '@trainyard/engine';
import { formatMegabytes } from '@trainyard/protocol/fields';

import { inspectInChild } from '../../hosts/pool/inspect-in-child.ts';
import type { ServiceConfig } from '../settings/config.ts';
import { refuseMissingModels } from '../settings/model-files.ts';
import type { ModelConfig } from '../settings/model-settings.ts';
import { hostOptionsOf } from '../parts/open-inference.ts';
import { MEASURED_STEPS } from '../planning/measured-steps.ts';
import { type PredictedStep, predictStep } from '../planning/predict-step.ts';
import { dataPaths } from '../../seams/data/data-directory.ts';

export interface ModelExamination {
  /** Reason why the model cannot be trained, or null. */
  readonly untrainable: string | null;
  /** Predicted memory in words; null if the file is not there yet. */
  readonly memory: string | null;
  /** Step of 64 rollouts on this machine; null if it is unknown. */
  readonly step: PredictedStep | null;
}

const UNKNOWN: ModelExamination = { untrainable: null, memory: null, step: null };
/** Row for which the memory of training is predicted: eight replies of 80 tokens after a prompt of 384. */
const ROW_TOKENS = 1024;

function memoryLine(sampling: ModelMemory, training: TrainingPrediction | null): string {
  const least = formatMegabytes(sampling.weightBytes + sampling.processBytes, 0);
  const cache = `up to ${formatMegabytes(sampling.cacheBytes, 0)} of KV cache`;
  if (training === null) return `memory: sampling ${least} and ${cache}`;
  const row = `training ${formatMegabytes(totalTrainingBytes(training.memory), 0)} with rows of ${ROW_TOKENS.toLocaleString('en')} tokens`;
  return `memory with ${training.weights} weights: sampling ${least} and ${cache}, ${row}`;
}

/**
 * Checks a base model's file like a start, in a child process. A folder that no start has converted yet is read,
 * except for the values of its weights.
 * @throws {ServerError} `server.model_missing`; `server.host_failed_to_start`, with the reason: no file,
 * truncated, not computable here
 */
export async function examineModel(given: ModelConfig, config: ServiceConfig): Promise<ModelExamination> {
  // A start downloads it.
  if (given.hub !== null) return UNKNOWN;
  refuseMissingModels([given]);
  const { models: cacheDirectory } = dataPaths(config.dataDirectory);
  const source = copySource(given.path, given.chatTemplate);
  const path = source === null ? given.path : copyPath(source, cacheDirectory);
  if (!existsSync(path)) return UNKNOWN;
  const { numThreads } = config;
  // Matrices in bf16 have two layouts, together as large as one in single precision.
  const weights = config.precision === 'bf16' ? 'resident' : config.weights;
  const training = predictTraining(path, { weights, numThreads, numTokens: ROW_TOKENS });
  // Avoids a copy in another precision, which takes minutes and gigabytes: models of the graphs and `fast` need none.
  const precision = training !== null || config.precision === 'bf16' ? config.precision : 'fast';
  const model = { ...given, path };
  const options = hostOptionsOf(model, { ...config, precision }, { cacheDirectory });
  const { served, memory } = await inspectInChild(options, () => undefined);
  const { untrainable = null, parameters } = served;
  const isKnown = untrainable === null && parameters !== undefined;
  return {
    untrainable,
    memory: memoryLine(memory, training),
    step: isKnown ? predictStep(MEASURED_STEPS, parameters, numThreads) : null,
  };
}
