import { TokenEngine, type TokenEngineParts } from '../tokens/token-engine.ts';
import type { RunnerSizes, ServedModel } from './served-model.ts';

export interface OpenTokenEngineOptions extends Omit<TokenEngineParts, 'runner'>, RunnerSizes {}

/** @param model belongs to the caller and must outlive the engine */
export function openTokenEngine(model: ServedModel, options: OpenTokenEngineOptions): TokenEngine {
  const { numThreads, capacityTokens, cacheBytes = null, maxSequences, ...parts } = options;
  return new TokenEngine({
    ...parts,
    runner: model.openRunner({ numThreads, capacityTokens, cacheBytes, maxSequences }),
  });
}
