import { dirname, join } from 'node:path';

import type { BackendMember, EngineStats, LoadedVersion } from '@trainyard/backend';
import type { EngineEvent, GenerateRequest, TokenizeInput, TokenizerFacts } from '@trainyard/generation';
import type { Adapter, Blobs, JobOrigin, TrainerLimits } from '@trainyard/store';
import { OPTIMIZER_FILE } from '@trainyard/trainer';

import { BackendFailure } from '../faults/backend-failure.ts';
import { damageMessage } from '../faults/damaged-files.ts';
import { checkFolder } from '../integrity/check-folder.ts';
import { adapterIdentity } from './adapter-identity.ts';
import type { RequestError } from '../faults/request-error.ts';
import type { BaseModel } from './base-models.ts';
import type { ResolvedModel } from './model-names.ts';

/** Why a part does not work as it should, in words that name no file; null when all is well. */
export type Trouble = Promise<string | null> | string | null;

export interface Tokenized {
  tokenIds: number[];
  /** The text of each id by itself, where it was asked for. */
  texts: string[] | null;
}

/** One immutable adapter version: `digest` is its identity, `directoryKey` its folder among the blobs. */
export interface ServedAdapter {
  readonly digest: string;
  readonly directoryKey: string;
  /** Its file for llama.cpp on this machine; null where this process needs none, since what samples is elsewhere. */
  readonly path: string | null;
}

/** A request whose adapter can be found on any machine of the service. */
export interface InferenceRequest extends Omit<GenerateRequest, 'adapter' | 'traceParent'> {
  readonly adapter: ServedAdapter | null;
  /** The client's request, for the log of an engine on another machine and the traces of whoever samples; absent where neither is wanted. */
  readonly origin?: RequestOrigin;
  /** Nothing of the answer is sent before its end, so another engine may begin it again at any time. Default false: only before its first output. */
  readonly isWhole?: boolean;
}

/** A client's request, as other machines tell of it. */
export interface RequestOrigin {
  /** Its `X-Request-Id`. */
  readonly requestId: string;
  /** The span that what they do is a part of, in the form of the header `traceparent`; null: none. */
  readonly traceParent: string | null;
}

/** Sampling from one base model and from what is trained on it. */
export interface ModelInference {
  /**
   * Events of one request, ending in exactly one `completed` or `failed`. Nothing is produced ahead of a reader that stopped
   * pulling beyond a small buffer; leaving the loop, or aborting the signal, ends the request and frees its cache. Where engines are elsewhere a second
   * `started` may come: another engine begins again, and what came before is void.
   */
  generate(request: InferenceRequest, signal: AbortSignal): AsyncIterable<EngineEvent>;
  /** Text, or a conversation, as ids. @throws {BackendFailure} */
  tokenize(input: TokenizeInput, options: { withTexts: boolean; signal: AbortSignal }): Promise<Tokenized>;
  /** Ids as text, control tokens included. @throws {BackendFailure} */
  detokenize(tokenIds: readonly number[], options: { signal: AbortSignal }): Promise<string>;
  /** The text of each id by itself; pieces of a character read as U+FFFD. @throws {BackendFailure} */
  tokenTexts(tokenIds: readonly number[], options: { signal: AbortSignal }): Promise<string[]>;
  tokenizerFacts(): TokenizerFacts;
  /** Null while the model is not in memory, and until its engine has reported for the first time. */
  stats(): EngineStats | null;
  /** The servers that sample, as of the last look at them; none where the engine of this machine does. */
  members?(): readonly BackendMember[];
  /** Adapters in the memory of the engine of this machine, as of the last look at it. */
  adapters?(): readonly LoadedVersion[];
}

/** The same model, whose generations go another way. */
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

/** The seam between HTTP and whatever samples: engine hosts on this machine, engines on others, or other servers. */
export interface InferenceBackend {
  /** The default one first; known once it has started. At least one, unless `absence` says why there is none. */
  readonly models: readonly BaseModel[];
  /** Where engines come and go: why that base model is not there now, or, of null, any at all; null when it is none of this service. */
  absence?(id: string | null): RequestError | null;
  /** The files of adapters are read elsewhere: none of them is looked for in this process. Default false. */
  readonly isElsewhere?: boolean;
  /** @param id of one of `models` */
  of(id: string): ModelInference;
  /** Before anything of a request is read. @throws {BackendFailure} `engine.overloaded` when as many are in flight as may be, over all models */
  checkRoom(): void;
  /**
   * Loads an adapter version of a base model in all engines and servers that sample from it, before a request names it. An engine that does not answer, or has no
   * room, loads it with its first request. Absent: all do.
   * @returns why a part of them refuses it; null: none does
   * @throws {BackendFailure} `engine.adapter_unreadable`, `engine.adapter_damaged` with the reason of one, if all refuse it
   */
  publish?(id: string, adapter: ServedAdapter, signal: AbortSignal): Promise<string | null>;
  /**
   * No model has this adapter version any more: what it takes is given back, once no request in flight uses it. Unknown digests are ignored, and a request that
   * names it all the same brings it back.
   */
  retire(digest: string): void;
  trouble(): Trouble;
}

/**
 * Loads a step that a job has written in all engines and servers that sample from its base model.
 * @returns and @throws as {@link InferenceBackend.publish}
 */
export type PublishStep = (
  baseModel: string,
  step: Pick<ServedAdapter, 'digest' | 'directoryKey'>,
  signal: AbortSignal,
) => Promise<string | null>;

/** The seam between HTTP and the worker that runs training jobs. */
export interface TrainingQueue {
  /** Ids of the base models whose jobs this process takes; null: of any. */
  readonly baseModels: readonly string[] | null;
  /** Limits of its trainer; null or absent: none. */
  readonly limits?: TrainerLimits | null;
  /** A job was enqueued: look for work now rather than at the next poll. */
  notify(): void;
  /**
   * A job was cancelled or paused in the store, or its model deleted: stops computing it at the next layer, if it runs here.
   * @returns resolves when nothing of it runs any more
   */
  stopJob(jobId: string): Promise<void>;
  /** Why it does not work as it should, in words that name no file; null when all is well. */
  trouble(): string | null;
}

/** The seam between HTTP and the worker that runs exports. */
export interface ExportQueue {
  /** An export was queued: look for work now rather than at the next poll. */
  notify(): void;
  /** Stops the export if it is running; resolves when nothing writes or reads for it any more. */
  cancelExport(exportId: string): Promise<void> | void;
  /** The same for the exports of a model that was deleted. */
  cancelModel(modelId: string): Promise<void> | void;
}

/** The seam between HTTP and what checks uploaded adapters. */
export interface AdapterImporter {
  /**
   * Makes an upload an adapter; one that is committed already comes back as it is.
   * @throws {RequestError} for a missing file or adapter; {TransferError} with what is wrong with the files; {JobFault} with the same words
   *   when another process found it
   */
  commit(adapter: Adapter, origin?: JobOrigin): Promise<Adapter>;
  /** Stops the import of an adapter that was deleted, if it runs here; resolves when nothing reads its files any more. */
  cancelAdapter(adapterId: string): Promise<void> | void;
}

/** Name of the llama.cpp adapter inside a checkpoint directory. */
const ADAPTER_FILE = 'adapter.gguf';

/**
 * The adapter of a resolved model, or null for the untouched base model. Its files have the digests that they were written with.
 *
 * @param parts.isElsewhere see {@link InferenceBackend.isElsewhere}
 * @returns `'missing'` when the checkpoint's directory is gone: it was deleted after the name was resolved
 * @throws {BackendFailure} `engine.adapter_damaged`
 */
export async function findAdapter(
  blobs: Blobs,
  model: ResolvedModel,
  { isElsewhere = false, log }: Pick<InferenceBackend, 'isElsewhere'> & { readonly log: (line: string) => void },
): Promise<ServedAdapter | null | 'missing'> {
  if (model.kind === 'base' || model.directoryKey === null || model.digest === null) return null;
  const { digest, directoryKey } = model;
  if (isElsewhere) return { digest, directoryKey, path: null };
  const path = await intactPath(blobs, model, { digest, directoryKey, log });
  if (path === null) return 'missing';
  return { digest: await adapterIdentity(dirname(path), digest), directoryKey, path };
}

async function intactPath(
  blobs: Blobs,
  { name }: ResolvedModel,
  { digest, directoryKey, log }: { digest: string; directoryKey: string; log: (line: string) => void },
): Promise<string | null> {
  try {
    const path = await adapterPath(blobs, directoryKey);
    if (path !== null) await checkFolder(dirname(path), { digest, use: 'sampling', log });
    return path;
  } catch (error) {
    // It may have been deleted meanwhile.
    if ((await adapterPath(blobs, directoryKey).catch(() => '')) === null) return null;
    const message = damageMessage(name, error);
    throw message === null ? error : new BackendFailure('engine.adapter_damaged', message, 'model');
  }
}

/** The file for llama.cpp of an adapter on this machine; null when its folder is gone. */
export async function adapterPath(blobs: Blobs, directoryKey: string): Promise<string | null> {
  // The optimizer's state is half of a checkpoint, and nothing that samples reads it.
  const directory = await blobs.localDirectory(directoryKey, { without: [OPTIMIZER_FILE] });
  return directory === null ? null : join(directory, ADAPTER_FILE);
}
