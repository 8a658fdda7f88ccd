import type { TokenBackend } from '@trainyard/backend';
import { EmbeddedTokenBackend, openTokenEngine, ServedModel } from '@trainyard/engine';

import type { OpenEngineOptions } from './open-engine.ts';
import type { DriverParts } from './token-driver.ts';

/** Settings of the engine alone; those of its text are separate. */
export type EmbeddedDriverSettings = Pick<
  OpenEngineOptions,
  | 'precision'
  | 'oneDnnPath'
  | 'cacheDirectory'
  | 'numThreads'
  | 'capacityTokens'
  | 'cacheBytes'
  | 'maxSequences'
  | 'maxRequests'
  | 'maxChoices'
>;

/**
 * The engine as a token back end, in the process of its text. The engine host is faster, because its steps
 * and text know of each other.
 */
export async function openEmbeddedDriver(
  settings: EmbeddedDriverSettings,
  { modelId, modelPath, text, turns }: DriverParts,
): Promise<TokenBackend> {
  const { precision, oneDnnPath, cacheDirectory, maxRequests, maxChoices, ...sizes } = settings;
  const { numThreads } = sizes;
  const model = ServedModel.load({ modelPath, precision, oneDnnPath, cacheDirectory, numThreads });
  const { tokenizer } = text.prompt;
  const engine = openTokenEngine(model, {
    ...sizes,
    ends: tokenizer,
    leavesCore: () => text.constraints.isCompiling,
    limits: { maxRequests: 2 * maxRequests, ...(maxChoices === undefined ? {} : { maxChoices }) },
  });
  return new EmbeddedTokenBackend({ modelId, engine, turns, onClosed: () => model.close() });
}
