import { LlamaModel } from '@trainyard/native';
import { LlamaRunner } from './runner/llama-runner.ts';
import { servedModelPath } from './runner/served-model.ts';
import { TokenEngine, type TokenEngineParts } from './tokens/token-engine.ts';

/** Tokens of one llama.cpp batch: more than any step plans, so that it is never the limit. */
const BATCH_TOKENS = 1024;

export interface OpenTokenEngineOptions extends Omit<TokenEngineParts, 'runner'> {
  readonly numThreads: number;
  /** KV cache over all sequences, tokens. */
  readonly capacityTokens: number;
  readonly maxSequences: number;
  readonly cachePrecision: 'f16' | 'f32';
}

/**
 * The model that {@link servedModelPath} chooses.
 * @throws {NativeError} when the file is missing, malformed, or no llama.cpp fits this machine
 */
export function loadServedModel(options: Parameters<typeof servedModelPath>[0]): LlamaModel {
  return LlamaModel.load(servedModelPath(options));
}

/** An engine on llama.cpp. @param model with its weights; stays the caller's, and open as long as the engine is */
export function openTokenEngine(model: LlamaModel, options: OpenTokenEngineOptions): TokenEngine {
  const { numThreads, capacityTokens: contextTokens, maxSequences, cachePrecision, ...parts } = options;
  const sizes = { contextTokens, maxSequences, batchTokens: BATCH_TOKENS };
  return new TokenEngine({ ...parts, runner: new LlamaRunner(model, { ...sizes, numThreads, cachePrecision }) });
}
