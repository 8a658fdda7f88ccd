import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

import type { BackendMember, EngineStats, LoadedVersion } from '@trainyard/backend';
import type { EngineEvent, GenerateRequest, TokenizeInput, TokenizerFacts } from '@trainyard/generation';
import type { Adapter, Blobs, JobOrigin, TrainerLimits } from '@trainyard/store';
import { OPTIMIZER_FILE, SUMS_FILE } from '@trainyard/trainer';

import { BackendFailure } from '../faults/backend-failure.ts';
import { damageMessage } from '../faults/damaged-files.ts';
import { checkFolder, type FolderCheck, WEIGHTS_FILE } from '../integrity/check-folder.ts';
import { adapterIdentity } from './adapter-identity.ts';
import type { RequestError } from '../faults/request-error.ts';
import type { BaseModel } from './base-models.ts';
import type { ResolvedModel } from './model-names.ts';

/** Reason why a part has a problem, without file names; null: none. */
export type Problem = Promise<string | null> | string | null;

export interface Tokenized {
  tokenIds: number[];
  /** Text of each id by itself, if requested. */
  texts: string[] | null;
}

/** One immutable adapter version: `digest` is its identity, `directoryKey` its folder in the blob store. */
export interface ServedAdapter {
  readonly digest: string;
  readonly directoryKey: string;
  /** Local file for llama.cpp; null if this process needs none because sampling is remote. */
  readonly path: string | null;
}

export interface InferenceRequest extends Omit<GenerateRequest, 'adapter' | 'traceParent'> {
  readonly adapter: ServedAdapter | null;
  /** For the engine's log and traces on another machine; absent if neither is wanted. */
  readonly origin?: RequestOrigin;
  /**
   * No part of the answer is sent before its end, so another engine may restart it at any time. Default
   * false: only before its first output.
   */
  readonly isWhole?: boolean;
}

export interface RequestOrigin {
  readonly requestId: string;
  /** Parent span of the work, as a `traceparent` header; null: none. */
  readonly traceParent: string | null;
}

/** Sampling from one base model and its trained models. */
export interface ModelInference {
  /**
   * Events of one request, ending in exactly one `completed` or `failed`. Leaving the loop, or aborting the
   * signal, ends the request and frees its cache. With remote engines a second `started` may come: another
   * engine restarts the request and earlier events are void.
   */
  generate(request: InferenceRequest, signal: AbortSignal): AsyncIterable<EngineEvent>;
  /** Converts text, or a conversation, to ids. @throws {BackendFailure} */
  tokenize(input: TokenizeInput, options: { withTexts: boolean; signal: AbortSignal }): Promise<Tokenized>;
  /** Control tokens included. @throws {BackendFailure} */
  detokenize(tokenIds: readonly number[], options: { signal: AbortSignal }): Promise<string>;
  /** Text of each id by itself; parts of a character read as U+FFFD. @throws {BackendFailure} */
  tokenTexts(tokenIds: readonly number[], options: { signal: AbortSignal }): Promise<string[]>;
  tokenizerFacts(): TokenizerFacts;
  /** Null while the model is not in memory, and until its engine has reported for the first time. */
  stats(): EngineStats | null;
  /** Servers that sample, as of the last check; empty if the local engine does. */
  members?(): readonly BackendMember[];
  /** Adapters in memory of the local engine, as of the last check. */
  adapters?(): readonly LoadedVersion[];
}

export function withGenerate(inference: ModelInference, generate: ModelInference['generate']): ModelInference {
  return {
    generate,
    tokenize: (input, options) => inference.tokenize(input, options),
    detokenize: (tokenIds, options) => inference.detokenize(tokenIds, options),
    tokenTexts: (tokenIds, options) => inference.tokenTexts(tokenIds, options),
    tokenizerFacts: () => inference.tokenizerFacts(),
    stats: () => inference.stats(),
    members: () => inference.members?.() ?? [],
    adapters: () => inference.adapters?.() ?? [],
  };
}

/** Interface between HTTP and sampling: engine hosts, remote engines, or other servers. */
export interface InferenceBackend {
  /** The default comes first. Known after the start; not empty, unless `absence` gives a reason. */
  readonly models: readonly BaseModel[];
  /** Reason why that base model (null: any) is not there now, if engines come and go; null if it is unknown. */
  absence?(id: string | null): RequestError | null;
  /** Other machines read the adapter files. Default false. */
  readonly isRemote?: boolean;
  /** File that its engines read. Default `peft`. */
  readonly adapterFormat?: AdapterFormat;
  /** @param id of one of `models` */
  of(id: string): ModelInference;
  /** False if this process serves no such base model, or it is not in memory. Absent: unknown. */
  isLoaded?(id: string): boolean;
  /** @throws {BackendFailure} `engine.overloaded` at the limit of requests in flight, over all models */
  checkCapacity(): void;
  /**
   * Loads an adapter version in all engines and servers of a base model, before a request names it. One that
   * does not answer, or has no room, loads it with its first request.
   * @returns the reason if some refuse it; null: none does
   * @throws {BackendFailure} `engine.adapter_unreadable`, `engine.adapter_damaged` with one of the reasons,
   * if all refuse it
   */
  publish?(id: string, adapter: ServedAdapter, signal: AbortSignal): Promise<string | null>;
  /**
   * Frees an adapter version without a model, once no request uses it. Unknown digests are ignored; a later
   * request loads it again.
   */
  retire(digest: string): void;
  problem(): Problem;
}

/**
 * Loads a newly written step of a job in all engines and servers that sample from its base model.
 * @returns and @throws as {@link InferenceBackend.publish}
 */
export type PublishStep = (
  baseModel: string,
  step: Pick<ServedAdapter, 'digest' | 'directoryKey'>,
  signal: AbortSignal,
) => Promise<string | null>;

export interface TrainingQueue {
  /** Base models of the jobs that this process takes; null: any. */
  readonly baseModels: readonly string[] | null;
  /** Limits of its trainer; null or absent: none. */
  readonly limits?: TrainerLimits | null;
  notify(): void;
  /**
   * Stops a cancelled or paused job, or one of a deleted model, at the next layer if it runs here.
   * @returns resolves when no part of it runs any more
   */
  stopJob(jobId: string): Promise<void>;
  /** Problem, without file names; null: none. */
  problem(): string | null;
}

export interface ExportQueue {
  notify(): void;
  /** Stops a running export. Resolves when its reads and writes have ended. */
  cancelExport(exportId: string): Promise<void> | void;
  cancelModel(modelId: string): Promise<void> | void;
}

export interface AdapterImporter {
  /**
   * Turns an upload into an adapter. Returns an adapter that is already committed.
   * @throws {RequestError} for a missing file or adapter; {TransferError} for invalid files; {JobFault} with
   * the same message if another process found the fault
   */
  commit(adapter: Adapter, origin?: JobOrigin): Promise<Adapter>;
  /** Resolves when the files of a running import are no longer read. */
  cancelAdapter(adapterId: string): Promise<void> | void;
}

/** File of an adapter that an engine reads: vLLM the PEFT file, the embedded engines the GGUF file. */
export type AdapterFormat = Exclude<FolderCheck['use'], 'training'>;

/** Name of the llama.cpp adapter inside a checkpoint directory. */
const ADAPTER_FILE = 'adapter.gguf';

/**
 * Adapter of a resolved model, or null for the untrained base model. Checks the digests of its files.
 * @param parts.isRemote, parts.adapterFormat see {@link InferenceBackend}
 * @returns `'missing'` if the checkpoint was deleted after the name was resolved
 * @throws {BackendFailure} `engine.adapter_damaged`
 */
export async function findAdapter(
  blobs: Blobs,
  model: ResolvedModel,
  parts: Pick<InferenceBackend, 'isRemote' | 'adapterFormat'> & { readonly log: (line: string) => void },
): Promise<ServedAdapter | null | 'missing'> {
  if (model.kind === 'base' || model.directoryKey === null || model.digest === null) return null;
  const { digest, directoryKey } = model;
  if (parts.isRemote === true) return { digest, directoryKey, path: null };
  const { adapterFormat = 'peft', log } = parts;
  const path = await intactPath(blobs, model, { digest, directoryKey, adapterFormat, log });
  if (path === null) return 'missing';
  return { digest: await adapterIdentity(dirname(path), digest), directoryKey, path };
}

async function intactPath(
  blobs: Blobs,
  { name }: ResolvedModel,
  file: {
    readonly digest: string;
    readonly directoryKey: string;
    readonly adapterFormat: AdapterFormat;
    readonly log: (line: string) => void;
  },
): Promise<string | null> {
  const { digest, directoryKey, adapterFormat, log } = file;
  try {
    const path = await adapterPath(blobs, directoryKey, adapterFormat);
    if (path !== null) await checkFolder(dirname(path), { digest, use: adapterFormat, log });
    return path;
  } catch (error) {
    if ((await adapterPath(blobs, directoryKey, adapterFormat).catch(() => '')) === null) return null;
    const message = damageMessage(name, error);
    throw message === null ? error : new BackendFailure('engine.adapter_damaged', message, 'model');
  }
}

/**
 * Local path of an adapter's GGUF file, next to the other files that an engine reads. Leaves out the optimizer
 * state, half of a checkpoint, and for `gguf` the PEFT weights, half of the rest, if a list has their digests.
 * @returns null if the folder is gone
 */
export async function adapterPath(
  blobs: Blobs,
  directoryKey: string,
  format: AdapterFormat = 'peft',
): Promise<string | null> {
  const without = [OPTIMIZER_FILE];
  let directory = await blobs.localDirectory(directoryKey, {
    without: format === 'gguf' ? [...without, WEIGHTS_FILE] : without,
  });
  if (directory !== null && format === 'gguf' && !existsSync(join(directory, SUMS_FILE)))
    directory = await blobs.localDirectory(directoryKey, { without });
  return directory === null ? null : join(directory, ADAPTER_FILE);
}
