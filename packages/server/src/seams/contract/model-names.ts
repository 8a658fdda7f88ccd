import type { Checkpoint, Model, Store } from '@trainyard/store';

import { adapterName, findImportedAdapter, isAdapterName } from './resolve-imported-adapter.ts';
import type { BaseModel, BaseModels } from './base-models.ts';
import { RequestError } from '../faults/request-error.ts';

/** The model that a name resolves to. Resolved once, at admission: a running request never changes version. */
export type ResolvedModel =
  | { kind: 'base'; name: string; project: null; base: BaseModel }
  | {
      kind: 'checkpoint';
      modelId: string;
      project: string;
      /** `entity/project/name:stepN` */
      name: string;
      /** `entity/project/name` */
      root: string;
      /** Creation time of the version, milliseconds since the epoch. */
      createdAt: number;
      step: number;
      /** Null: base weights, served with the defaults of a trained model. */
      directoryKey: string | null;
      digest: string | null;
      base: BaseModel;
    }
  | {
      kind: 'adapter';
      /** `adapter:ID` */
      name: string;
      project: null;
      /** Milliseconds since the epoch. */
      createdAt: number;
      directoryKey: string;
      digest: string;
      base: BaseModel;
    };

/** A parsed name. `step` null = the latest. */
interface ModelName {
  entity: string | null;
  project: string | null;
  name: string;
  step: number | 'best' | null;
}

/**
 * Resolves the `model` of a request for one tenant.
 * Forms: a base model's id · `name` · `entity/project/name`, each with `:stepN`, `@stepN` or `@N` for one
 * version, or with `:best` or `@best` for the kept checkpoint with the highest reward ({@link
 * Store.runs.bestCheckpoint}) · any of the latter after `wandb-artifact:///` (or two slashes) · `adapter:ID` of an
 * imported adapter. Absent and empty mean the default base model.
 * @param entity name of the caller's entity, `entityId` its id; models of other entities are unknown
 * @throws {RequestError} `request.unknown_model` (also for a deleted step), `request.ambiguous_model` for a
 * bare name that several projects have, `server.unavailable` while its base model is not there,
 * `request.conflict` if its base model is not served, and for an adapter that is not committed yet
 */
export async function resolveModelName(
  store: Store,
  options: { requested: string | null | undefined; entity: string; entityId: string; baseModels: BaseModels },
): Promise<ResolvedModel> {
  const { requested, entity, entityId, baseModels } = options;
  const named = requested ? baseModels.find(requested) : baseModels.default;
  if (named !== null || !requested) return atBase(named ?? baseModels.default);
  if (isAdapterName(requested)) return await atAdapter(store, { requested, entityId, baseModels });
  const parsed = parseModelName(requested);
  const model = parsed && (await findModel(store, parsed, entity, requested));
  if (!parsed || !model) {
    // It may be a base model whose engine is away.
    baseModels.refuseAbsent(requested);
    throw unknownModel(requested);
  }
  const base = baseModels.under(model, { field: 'model', name: requested });
  const step = parsed.step === 'best' ? await bestStep(store, model, requested) : parsed.step;
  const checkpoint =
    step === null ? await store.checkpoints.latest(model.id) : await store.checkpoints.get(model.id, step);
  // A deleted step is unknown, even a step 0 that has the base model's weights.
  if (checkpoint === null) throw unknownModel(requested);
  return atCheckpoint(model, checkpoint, base);
}

/** @throws {RequestError} `request.unknown_model` before any step has a reward */
async function bestStep(store: Store, model: Model, requested: string): Promise<number> {
  const best = await store.runs.bestCheckpoint(model.id);
  if (best !== null) return best.step;
  const message = `The model \`${requested}\` does not exist: no checkpoint has a reward yet. Use \`${model.name}\` or \`${model.name}:stepN\`.`;
  throw new RequestError('request.unknown_model', message, { param: 'model' });
}

/** @param entityId of the caller */
export async function isVersionThere(store: Store, model: ResolvedModel, entityId: string): Promise<boolean> {
  switch (model.kind) {
    case 'base':
      return true;
    case 'checkpoint':
      return (await store.checkpoints.get(model.modelId, model.step))?.directoryKey === model.directoryKey;
    case 'adapter':
      return (await findImportedAdapter(store, { name: model.name, entityId })) !== null;
    default:
      return model satisfies never;
  }
}

function atBase(base: BaseModel): ResolvedModel {
  return { kind: 'base', name: base.id, project: null, base };
}

function atCheckpoint(model: Model, checkpoint: Checkpoint, base: BaseModel): ResolvedModel {
  const { step, createdAt, directoryKey, digest } = checkpoint;
  return {
    kind: 'checkpoint',
    modelId: model.id,
    project: model.project,
    name: versionName(model, step),
    root: `${model.entity}/${model.project}/${model.name}`,
    createdAt,
    step,
    directoryKey,
    digest,
    base,
  };
}

async function atAdapter(
  store: Store,
  { requested, entityId, baseModels }: { requested: string; entityId: string; baseModels: BaseModels },
): Promise<ResolvedModel> {
  const adapter = await findImportedAdapter(store, { name: requested, entityId });
  if (adapter === null) throw unknownModel(requested);
  const { content, createdAt, committedAt } = adapter;
  if (content === null)
    throw new RequestError('request.conflict', `The adapter \`${requested}\` is not committed yet`, { param: 'model' });
  return {
    kind: 'adapter',
    name: adapterName(adapter.id),
    project: null,
    createdAt: committedAt ?? createdAt,
    directoryKey: content.directoryKey,
    digest: content.digest,
    base: baseModels.under(adapter, { field: 'model', name: requested }),
  };
}

/** `entity/project/name:stepN`: the form that names exact weights. */
export function versionName(model: Pick<Model, 'entity' | 'project' | 'name'>, step: number): string {
  return `${model.entity}/${model.project}/${model.name}:step${step}`;
}

const ARTIFACT_SCHEME = /^wandb-artifact:\/\/\/?/;
const VERSION = /(?:(?::step|@step|@)(\d{1,15})|[:@]best)$/;

export function parseModelName(requested: string): ModelName | null {
  // Names contain no lone surrogates, and a database would look for U+FFFD instead.
  if (!requested.isWellFormed()) return null;
  const isArtifact = ARTIFACT_SCHEME.test(requested);
  const bare = requested.replace(ARTIFACT_SCHEME, '');
  const version = VERSION.exec(bare);
  const parts = (version ? bare.slice(0, version.index) : bare).split('/');
  const step = version ? (version[1] === undefined ? 'best' : Number(version[1])) : null;
  if (parts.some((part) => part === '')) return null;
  const [first, project, name] = parts;
  if (parts.length === 3 && first && project && name) return { entity: first, project, name, step };
  if (parts.length === 1 && first && !isArtifact) return { entity: null, project: null, name: first, step };
  return null;
}

async function findModel(store: Store, parsed: ModelName, entity: string, requested: string): Promise<Model | null> {
  if (parsed.project !== null)
    return parsed.entity === entity ? store.models.find(entity, parsed.project, parsed.name) : null;
  const found = await store.models.findByName(entity, parsed.name);
  switch (found.kind) {
    case 'found':
      return found.model;
    case 'none':
      return null;
    case 'ambiguous': {
      const choices = found.models.map((model) => `${model.entity}/${model.project}/${model.name}`).join(', ');
      throw new RequestError(
        'request.ambiguous_model',
        `The model name \`${requested}\` exists in several projects; use one of ${choices}`,
        { param: 'model' },
      );
    }
    default:
      return found satisfies never;
  }
}

function unknownModel(requested: string): RequestError {
  return new RequestError('request.unknown_model', `The model \`${requested}\` does not exist`, { param: 'model' });
}
