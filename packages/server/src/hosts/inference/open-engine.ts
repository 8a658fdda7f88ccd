import type { SchedulingPolicy } from '@trainyard/backend';
import {
  openTokenEngine,
  ServedModel,
  trainingFacts,
  type RunnerSizes,
  type ServedModelOptions,
} from '@trainyard/engine';
import { openTextHalf, TextEngine, type TextHalfOptions } from '@trainyard/generation';

import type { OpenedText } from '../process/opened-text.ts';

export interface OpenEngineOptions extends TextHalfOptions, ServedModelOptions, RunnerSizes {
  /** Requests in flight, running ones included. */
  readonly maxRequests: number;
  /** Choices of one request. Default: the number that runs concurrently. */
  readonly maxChoices?: number;
  /** Memory for adapters. Default: the engine's. */
  readonly maxAdapterBytes?: number;
  /** Default `priority`. */
  readonly policy?: SchedulingPolicy;
}

/**
 * Opens the token engine and the text of the same model in one process.
 * @throws {NativeError} if the file is missing or malformed, or no llama.cpp fits this machine
 */
export async function openEngine(options: OpenEngineOptions): Promise<OpenedText> {
  const {
    numThreads,
    capacityTokens,
    cacheBytes = null,
    maxSequences,
    maxRequests,
    maxChoices,
    maxAdapterBytes,
  } = options;
  const model = ServedModel.load(options);
  const { vocabulary } = model;
  const text = await openTextHalf(vocabulary, options);
  const { tokenizer } = text.prompt;
  const tokens = openTokenEngine(model, {
    numThreads,
    capacityTokens,
    cacheBytes,
    maxSequences,
    ends: tokenizer,
    texts: tokenizer,
    leavesCore: () => text.constraints.isCompiling,
    // Twice the limit, because the caller does not count requests whose client has left and that are still
    // ending.
    limits: {
      maxRequests: 2 * maxRequests,
      ...(maxChoices === undefined ? {} : { maxChoices }),
      ...(maxAdapterBytes === undefined ? {} : { maxAdapterBytes }),
    },
  });
  const { constraints } = text;
  const engine = new TextEngine({ ...text.prompt, tokens, constraints, policy: options.policy ?? 'priority' });
  return {
    engine,
    model: {
      path: vocabulary.path,
      architecture: vocabulary.architecture,
      contextLength: engine.limits.maxContextTokens,
      vocabSize: vocabulary.vocabSize,
      tokenizer: text.facts,
      ...trainingFacts(vocabulary.path),
      warnings: model.warnings(engine.limits.maxContextTokens),
    },
    codec: text.codec,
    coreUse: model.spins ? 'alone' : 'beside',
    health: async () => ({ problem: null, adapters: tokens.adapters }),
    close: () => {
      engine.close();
      text.close();
      model.close();
    },
  };
}
