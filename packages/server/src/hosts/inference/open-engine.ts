import type { SchedulingPolicy } from '@trainyard/backend';
import { loadServedModel, openTokenEngine } from '@trainyard/engine';
import { openTextHalf, TextEngine, type TextHalfOptions } from '@trainyard/generation';

import type { OpenedText } from './opened-text.ts';

export interface OpenEngineOptions extends TextHalfOptions {
  /** GGUF file, any quantisation. */
  readonly modelPath: string;
  /**
   * `exact` serves half-precision weights, so that sampler and trainer agree to 1e-3; `strict` single-precision weights, keys and values, so that they agree to
   * 1e-5; `fast` serves the file as it is.
   */
  readonly precision: 'exact' | 'strict' | 'fast';
  /** Folder for the half-precision copy when the model's own folder cannot be written. */
  readonly cacheDirectory: string;
  readonly numThreads: number;
  /** KV cache over all sequences, tokens. */
  readonly capacityTokens: number;
  readonly maxSequences: number;
  /** Requests in flight, running ones included. */
  readonly maxRequests: number;
  /** Choices of one request. Default: as many as run side by side. */
  readonly maxChoices?: number;
  /** Default `priority`. */
  readonly policy?: SchedulingPolicy;
}

/**
 * Both halves in one process: the engine of tokens on llama.cpp, and over it the text of the same model.
 *
 * @throws {NativeError} when the file is missing, malformed, or no llama.cpp fits this machine
 */
export async function openEngine(options: OpenEngineOptions): Promise<OpenedText> {
  const { numThreads, capacityTokens, maxSequences, maxRequests, maxChoices } = options;
  const model = loadServedModel(options);
  const text = await openTextHalf(model, options);
  const { tokenizer } = text.prompt;
  const tokens = openTokenEngine(model, {
    numThreads,
    capacityTokens,
    maxSequences,
    cachePrecision: options.precision === 'strict' ? 'f32' : 'f16',
    ends: tokenizer,
    texts: tokenizer,
    leavesCore: () => text.constraints.isCompiling,
    // As many again may be on their way out: the caller counts only those that somebody waits for.
    limits: { maxRequests: 2 * maxRequests, ...(maxChoices === undefined ? {} : { maxChoices }) },
  });
  const { constraints } = text;
  const engine = new TextEngine({ ...text.prompt, tokens, constraints, policy: options.policy ?? 'priority' });
  return {
    engine,
    model: {
      path: model.path,
      architecture: model.architecture,
      contextLength: engine.limits.maxContextTokens,
      vocabSize: model.vocabSize,
      tokenizer: text.facts,
    },
    codec: text.codec,
    takesCores: true,
    trouble: async () => null,
    close: () => {
      engine.close();
      text.close();
      model.close();
    },
  };
}
