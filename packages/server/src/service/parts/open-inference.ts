import type { ModelMemory } from '@trainyard/engine';

import type { ComputeShares } from '../../hosts/computing/compute-arbiter.ts';
import { ServerError } from '../../seams/faults/server-error.ts';
import type { OpenEngineOptions } from '../../hosts/inference/open-engine.ts';
import { VLLM_KEY_VARIABLE, type VllmDriverSettings } from '../../hosts/inference/vllm-driver.ts';
import type { TextHostOptions } from '../../hosts/inference/open-guest.ts';
import { EmbeddedInference, type InferenceHostOptions } from '../../hosts/pool/embedded-inference.ts';
import type { BaseScores } from '../../hosts/pool/base-scores.ts';
import type { ModelCheck } from '../../seams/integrity/model-check.ts';
import { InferencePool, type PoolModel } from '../../hosts/pool/inference-pool.ts';
import { inspectInChild } from '../../hosts/pool/inspect-in-child.ts';
import { defaultBudget, inMegabytes, totalBytes } from '../../hosts/pool/model-memory.ts';
import type { BaseModelPaths } from '../../seams/contract/base-model-path.ts';
import { RequestCapacity } from '../../hosts/pool/request-capacity.ts';
import type { ServiceConfig } from '../settings/config.ts';
import type { ModelConfig } from '../settings/model-settings.ts';

interface InferenceParts {
  /** folder for half-precision copies if a model's own folder is not writable */
  readonly cacheDirectory: string;
  /** shares of the cores for the hosts of all base models */
  readonly cores: ComputeShares;
  readonly niceness: number;
  /** reference scores for vLLM servers */
  readonly scores: BaseScores;
  /** Checks the files of models. Default: none are checked. */
  readonly files?: ModelCheck;
  readonly log: (line: string) => void;
}

/** Serves a further base model on this machine. @throws {ServerError} if it cannot be read, or exceeds the budget */
export type AddBaseModel = (model: ModelConfig) => Promise<void>;

/**
 * Opens the base models of a configuration, not started.
 * @throws {ServerError} for an unreadable file, and for a model that exceeds the budget
 */
export async function openInference(config: ServiceConfig, parts: InferenceParts): Promise<InferencePool> {
  return (await openGrowingInference(config, parts)).inference;
}

/** The same, with a way to add base models while it runs. @throws as {@link openInference} */
export async function openGrowingInference(
  config: ServiceConfig,
  parts: InferenceParts,
): Promise<{ readonly inference: InferencePool; readonly addBaseModel: AddBaseModel }> {
  const { cores, niceness, log } = parts;
  const isRemote = ({ vllmUrls }: ModelConfig): boolean => vllmUrls.length > 0;
  const here = config.models.filter((model) => !isRemote(model));
  const hostOptions = new Map<string, InferenceHostOptions>();
  for (const model of config.models.filter(isRemote))
    hostOptions.set(model.id, await openVllmOptions(model, config, parts));
  const engineOptions = new Map(here.map((model) => [model.id, hostOptionsOf(model, config, parts)]));
  for (const [id, options] of engineOptions) hostOptions.set(id, options);
  const found = await poolModelsOf(config, engineOptions, log);
  // Text over remote servers needs little memory, and stays.
  const models = config.models.map(
    ({ id }) => found.find((model) => model.id === id) ?? { id, served: null, bytes: 0 },
  );
  const capacity = new RequestCapacity(config.maxRequests);
  const { apiKey } = config.vllm;
  const secrets = apiKey === null ? {} : { [VLLM_KEY_VARIABLE]: apiKey };
  const budgetBytes = budgetOf(config, models);
  const inference = new InferencePool({
    models,
    budgetBytes,
    capacity,
    log,
    adapterFormat: config.models.some(isRemote) ? 'peft' : 'gguf',
    ...(parts.files && { files: parts.files }),
    open: (id, onIdle) => {
      const host = hostOptions.get(id);
      if (host === undefined) throw new Error(`the base model ${id} is not configured`);
      const name = hostOptions.size === 1 ? 'engine' : `engine (${id})`;
      const own = 'driver' in host ? { secrets } : {};
      return new EmbeddedInference({ name, host, ...own, capacity, onIdle, arbiter: cores, share: 1, niceness, log });
    },
  });
  // The only model of a service was not measured, because it stays; with a second one it need not.
  const sizes = new Map<string, number>();
  const addBaseModel: AddBaseModel = async (model) => {
    const options = hostOptionsOf(model, config, parts);
    const { served, memory } = await inspectInChild(options, log);
    const bytes = totalBytes(memory);
    if (bytes > budgetBytes) throw overBudget(model.id, memory, budgetBytes);
    for (const [id, unmeasured] of engineOptions)
      if (!sizes.has(id) && models.some((known) => known.id === id && known.served === null))
        sizes.set(id, totalBytes((await inspectInChild(unmeasured, log)).memory));
    hostOptions.set(model.id, options);
    inference.add({ id: model.id, served, bytes }, sizes);
  };
  return { inference, addBaseModel };
}

/**
 * Files for training: those used for sampling, even if no sampler runs in this process.
 * @throws {ServerError} for an unreadable file
 */
export async function servedPaths(
  config: ServiceConfig,
  parts: Pick<InferenceParts, 'cacheDirectory' | 'log'>,
): Promise<BaseModelPaths> {
  const paths = new Map<string, string>();
  // One after the other: a copy in another precision takes all cores and twice the memory of its file.
  for (const model of config.models) {
    const isRemote = model.vllmUrls.length > 0;
    const { path } = isRemote ? model : (await inspectInChild(hostOptionsOf(model, config, parts), parts.log)).served;
    paths.set(model.id, path);
  }
  return (id) => paths.get(id) ?? null;
}

/** @throws {ServerError} for an unreadable file */
async function openVllmOptions(
  model: ModelConfig,
  config: ServiceConfig,
  { scores, cacheDirectory }: Pick<InferenceParts, 'scores' | 'cacheDirectory'>,
): Promise<TextHostOptions> {
  const { apiKey: _apiKey, checksModel, ...vllm } = config.vllm;
  const { maxRequests, maxChoices } = config;
  const reference = checksModel ? await scores.of(model.path) : null;
  const settings: VllmDriverSettings = {
    ...vllm,
    urls: model.vllmUrls,
    probeDirectory: cacheDirectory,
    maxRequests,
    maxChoices,
    reference,
  };
  return {
    modelId: model.id,
    modelPath: model.path,
    maxRequests,
    policy: config.schedulingPolicy,
    driver: { name: 'vllm', settings },
    ...textOptionsOf(model, config),
  };
}

function textOptionsOf(model: ModelConfig, config: ServiceConfig) {
  return {
    runsRequestTemplates: config.requestTemplates === 'on',
    allowsControlTokens: config.specialTokens === 'control',
    toolFormat: model.toolParser === 'auto' ? null : model.toolParser,
  };
}

/** Options of a host that computes the model on this machine. */
export function hostOptionsOf(
  model: ModelConfig,
  config: ServiceConfig,
  parts: Pick<InferenceParts, 'cacheDirectory'>,
): OpenEngineOptions {
  return {
    modelPath: model.path,
    precision: config.precision,
    weights: config.weights,
    oneDnnPath: config.oneDnnPath,
    cacheDirectory: parts.cacheDirectory,
    numThreads: config.numThreads,
    capacityTokens: model.capacityTokens,
    cacheBytes: model.cacheMegabytes === null ? null : model.cacheMegabytes * 1e6,
    maxSequences: config.maxSequences,
    maxRequests: config.maxRequests,
    maxChoices: config.maxChoices,
    maxAdapterBytes: config.adapterMegabytes * 1e6,
    policy: config.schedulingPolicy,
    ...textOptionsOf(model, config),
  };
}

/** A single model without a budget is loaded at once and stays, so it needs no inspection. */
async function poolModelsOf(
  { modelMemoryMegabytes: megabytes }: ServiceConfig,
  hostOptions: ReadonlyMap<string, OpenEngineOptions>,
  log: (line: string) => void,
): Promise<PoolModel[]> {
  if (hostOptions.size === 1 && megabytes === null)
    return Array.from(hostOptions.keys(), (id) => ({ id, served: null, bytes: 0 }));
  const found: PoolModel[] = [];
  // One after the other: a half-precision copy takes all cores and twice the memory of its file.
  for (const [id, options] of hostOptions) {
    const { served, memory } = await inspectInChild(options, log);
    const bytes = totalBytes(memory);
    if (megabytes !== null && bytes > megabytes * 1e6) throw overBudget(id, memory, megabytes * 1e6);
    found.push({ id, served, bytes });
  }
  return found;
}

function overBudget(id: string, memory: ModelMemory, budgetBytes: number): ServerError {
  const { weightBytes, cacheBytes, processBytes } = memory;
  return new ServerError(
    'server.config_invalid',
    `the base model ${id} needs about ${inMegabytes(totalBytes(memory))} (weights ${inMegabytes(weightBytes)}, KV cache ${inMegabytes(cacheBytes)}, its process ` +
      `${inMegabytes(processBytes)}), but --model-memory-megabytes is ${Math.floor(budgetBytes / 1e6)}: raise it, or lower --capacity-tokens or --cache-megabytes`,
  );
}

/** Memory budget, bytes. By default each model fits by itself, as without a budget. */
function budgetOf({ modelMemoryMegabytes: megabytes }: ServiceConfig, models: readonly PoolModel[]): number {
  if (megabytes !== null) return megabytes * 1e6;
  return Math.max(defaultBudget(), ...models.map(({ bytes }) => bytes));
}
