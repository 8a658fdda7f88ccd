import { TokenEngine, type TokenEngineParts } from '../tokens/token-engine.ts';
import type { RunnerSizes, ServedModel } from './served-model.ts';

export interface OpenTokenEngineOptions extends Omit<TokenEngineParts, 'runner'>, RunnerSizes {}

/** An engine on a runner of its own. @param model stays the caller's, and open as long as the engine is */
export function openTokenEngine(model: ServedModel, options: OpenTokenEngineOptions): TokenEngine {
  const { numThreads, capacityTokens, cacheBytes = null, maxSequences, ...parts } = options;
  return new TokenEngine({
    ...parts,
    runner: model.openRunner({ numThreads, capacityTokens, cacheBytes, maxSequences }),
  });
}
