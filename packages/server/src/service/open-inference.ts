import type { ComputeShares } from '../computing/compute-arbiter.ts';
import { ServerError } from '../faults/server-error.ts';
import type { OpenEngineOptions } from '../hosts/inference/open-engine.ts';
import { EmbeddedInference } from '../inference/embedded-inference.ts';
import { InferencePool, type PoolModel } from '../inference/inference-pool.ts';
import { inspectInChild } from '../inference/inspect-in-child.ts';
import { defaultBudget, inMegabytes, totalBytes } from '../inference/model-memory.ts';
import { RequestRoom } from '../inference/request-room.ts';
import type { ServiceConfig } from './config.ts';
import type { ModelConfig } from './model-settings.ts';

interface InferenceParts {
  /** folder for half-precision copies when a model's own folder cannot be written */
  readonly cacheDirectory: string;
  /** where the hosts of all base models share the cores */
  readonly cores: ComputeShares;
  readonly niceness: number;
  readonly log: (line: string) => void;
}

/**
 * The base models of a configuration, not started.
 *
 * @throws {ServerError} for a file that cannot be read, and for a model that the budget has no room for
 */
export async function openInference(config: ServiceConfig, parts: InferenceParts): Promise<InferencePool> {
  const { cores, niceness, log } = parts;
  const hostOptions = new Map(config.models.map((model) => [model.id, hostOptionsOf(model, config, parts)]));
  const models = await poolModelsOf(config, hostOptions, log);
  const room = new RequestRoom(config.maxRequests);
  const isOnlyOne = models.length === 1;
  return new InferencePool({
    models,
    budgetBytes: budgetOf(config, models),
    room,
    log,
    open: (id, onIdle) => {
      const host = hostOptions.get(id);
      if (host === undefined) throw new Error(`the base model ${id} is not configured`);
      const name = isOnlyOne ? 'engine' : `engine (${id})`;
      return new EmbeddedInference({ name, host, room, onIdle, arbiter: cores, share: 1, niceness, log });
    },
  });
}

function hostOptionsOf(model: ModelConfig, config: ServiceConfig, parts: InferenceParts): OpenEngineOptions {
  return {
    modelPath: model.path,
    precision: config.precision,
    cacheDirectory: parts.cacheDirectory,
    numThreads: config.numThreads,
    capacityTokens: model.capacityTokens,
    cacheBytes: model.cacheMegabytes === null ? null : model.cacheMegabytes * 1e6,
    maxSequences: config.maxSequences,
    maxRequests: config.maxRequests,
    maxChoices: config.maxChoices,
    policy: config.schedulingPolicy,
    runsRequestTemplates: config.requestTemplates === 'on',
    allowsControlTokens: config.specialTokens === 'control',
    toolFormat: model.toolParser === 'auto' ? null : model.toolParser,
  };
}

/** A single model without a budget needs no look: it is loaded at once, and stays. */
async function poolModelsOf(
  { models, modelMemoryMegabytes: megabytes }: ServiceConfig,
  hostOptions: ReadonlyMap<string, OpenEngineOptions>,
  log: (line: string) => void,
): Promise<PoolModel[]> {
  if (models.length === 1 && megabytes === null) return models.map(({ id }) => ({ id, served: null, bytes: 0 }));
  const found: PoolModel[] = [];
  // One after the other: a half-precision copy takes all cores and twice the memory of its file.
  for (const [id, options] of hostOptions) {
    const { served, memory } = await inspectInChild(options, log);
    const bytes = totalBytes(memory);
    if (megabytes !== null && bytes > megabytes * 1e6) {
      const { weightBytes, cacheBytes, processBytes } = memory;
      throw new ServerError(
        'server.config_invalid',
        `the base model ${id} takes about ${inMegabytes(bytes)} (weights ${inMegabytes(weightBytes)}, KV cache ${inMegabytes(cacheBytes)}, its process ` +
          `${inMegabytes(processBytes)}), and --model-memory-megabytes is ${megabytes}: raise it, or lower --capacity-tokens or --cache-megabytes`,
      );
    }
    found.push({ id, served, bytes });
  }
  return found;
}

/** By default every model fits alone, as without a budget. */
function budgetOf({ modelMemoryMegabytes: megabytes }: ServiceConfig, models: readonly PoolModel[]): number {
  if (megabytes !== null) return megabytes * 1e6;
  return Math.max(defaultBudget(), ...models.map(({ bytes }) => bytes));
}
