/**
 * A text host over the engine as a token back end, in the same process. The service's engine host is faster,
 * because its steps and text know of each other.
 */
import type { TokenBackend } from '@trainyard/backend';
import { openTokenEngine, ServedModel } from '@trainyard/engine';
import { EmbeddedTokenBackend } from '@trainyard/engine/testing';

import { hostOptions } from '../process/host-main.ts';
import type { OpenEngineOptions } from './open-engine.ts';
import { openGuest, type TextHostOptions } from './open-guest.ts';
import { serveText } from './serve-text.ts';
import type { DriverParts } from './token-driver.ts';

/** Settings of the engine alone; those of its text are separate. */
export type EmbeddedDriverSettings = Pick<
  OpenEngineOptions,
  'precision' | 'oneDnnPath' | 'cacheDirectory' | 'numThreads' | 'capacityTokens' | 'maxSequences' | 'maxRequests'
>;

async function openEmbeddedDriver(
  settings: EmbeddedDriverSettings,
  { modelId, modelPath, text, turns }: DriverParts,
): Promise<TokenBackend> {
  const { precision, oneDnnPath, cacheDirectory, maxRequests, ...sizes } = settings;
  const { numThreads } = sizes;
  const model = ServedModel.load({ modelPath, precision, oneDnnPath, cacheDirectory, numThreads });
  const engine = openTokenEngine(model, {
    ...sizes,
    ends: text.prompt.tokenizer,
    leavesCore: () => text.constraints.isCompiling,
    limits: { maxRequests: 2 * maxRequests },
  });
  return new EmbeddedTokenBackend({ modelId, engine, turns, onClosed: () => model.close() });
}

const log = (line: string): void => void process.send?.({ kind: 'log', line });
await serveText((turns) => openGuest(hostOptions<TextHostOptions>(), { embedded: openEmbeddedDriver }, { turns, log }));
