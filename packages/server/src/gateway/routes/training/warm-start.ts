import { briefly, type LoraRequest } from '@trainyard/protocol';
import type { LoraShape, Model, NewWarmStart, Store } from '@trainyard/store';

import { isAdapterName, resolveImportedAdapter } from '../../../seams/contract/resolve-imported-adapter.ts';
import { type BaseModel, BaseModels } from '../../../seams/contract/base-models.ts';
import { parseModelName, resolveModelName, versionName } from '../../../seams/contract/model-names.ts';
import { RequestError } from '../../../seams/faults/request-error.ts';
import type { RouteParts } from '../../parts/server-parts.ts';
import { contradictions } from '../../../training-data/wire/lora.ts';

/** Start of a model: its adapter's shape, and the weights of step 0 unless they are the base model's. */
export interface ModelStart {
  lora: LoraShape;
  warmStart?: NewWarmStart;
}

/**
 * Resolves the checkpoint, or the imported adapter, of `lora.init_from`; the new model takes its shape.
 * @param options the caller's entity, by name and id: models of others are unknown
 * @throws {RequestError} `request.unknown_model`, `request.ambiguous_model`, `request.not_found`,
 * `request.conflict`; `request.invalid` for another base model, or a shape that contradicts the checkpoint's
 */
export async function readWarmStart(
  parts: RouteParts,
  wire: LoraRequest & { init_from: string },
  options: { entity: string; entityId: string; baseModel: string },
): Promise<ModelStart> {
  const { store } = parts;
  const param = 'lora.init_from';
  const base = parts.baseModels.find(options.baseModel);
  if (isAdapterName(wire.init_from)) return await importedAdapter(store, wire, { ...options, base });
  const source = await resolveModelName(store, {
    requested: wire.init_from,
    entity: options.entity,
    entityId: options.entityId,
    baseModels: new BaseModels(() => [parts.baseModels.named(options.baseModel)]),
  }).catch((error: unknown) => {
    if (!(error instanceof RequestError)) throw error;
    if (error.code === 'request.conflict') throw fault(`${error.message}: the base models must be the same`, wire);
    throw new RequestError(error.code, error.message, { param, cause: error });
  });
  if (source.kind !== 'checkpoint')
    throw fault('Input should be a trained model; without it a model starts from the base model', wire);
  const model = await store.models.get(source.modelId);
  if (model === null)
    throw new RequestError('request.unknown_model', `The model \`${briefly(wire.init_from)}\` does not exist`, {
      param,
    });
  const items = contradictions(wire, model.lora, { owner: `\`${source.name}\``, base });
  if (items.length > 0) throw RequestError.invalid(items);
  return {
    lora: model.lora,
    warmStart: { kind: 'checkpoint', source: source.name, modelId: model.id, step: source.step },
  };
}

async function importedAdapter(
  store: Store,
  wire: LoraRequest & { init_from: string },
  { entityId, baseModel, base }: { entityId: string; baseModel: string; base: BaseModel | null },
): Promise<ModelStart> {
  const name = wire.init_from;
  const { lora, directoryKey, digest } = await resolveImportedAdapter(store, {
    name,
    entityId,
    baseModel,
    param: 'lora.init_from',
  });
  const items = contradictions(wire, lora, { owner: `\`${name}\``, base });
  if (items.length > 0) throw RequestError.invalid(items);
  return { lora, warmStart: { kind: 'directory', source: name, directoryKey, digest } };
}

/**
 * True if a registration matches an existing model. A name without a step, or with `best`, matches any step
 * of that model: a repeated script must not fail because its teacher has been trained further.
 *
 * @param base its base model; null: unknown
 */
export function fits(wire: LoraRequest, model: Model, base: BaseModel | null): boolean {
  if (contradictions(wire, model.lora, { owner: '', base }).length > 0) return false;
  if (wire.init_from === undefined || wire.init_from === null) return true;
  if (isAdapterName(wire.init_from)) return model.warmStart?.source === wire.init_from;
  const asked = parseModelName(wire.init_from);
  const has = model.warmStart === null ? null : parseModelName(model.warmStart.source);
  if (asked === null || has === null) return false;
  const isSame = (name: 'entity' | 'project' | 'step') => asked[name] === null || asked[name] === has[name];
  return asked.name === has.name && isSame('entity') && isSame('project') && (asked.step === 'best' || isSame('step'));
}

/** Training must not continue without its initial weights, and least of all silently from the base model. */
export function warmStartIsGone(model: Model): RequestError {
  return new RequestError(
    'request.conflict',
    `No checkpoint of ${versionName(model, 0).replace(/:step0$/, '')} is left, and it did not start from the base model`,
    { param: 'model_id' },
  );
}

function fault(msg: string, wire: { init_from: string }): RequestError {
  return RequestError.invalid([
    { loc: ['body', 'lora', 'init_from'], msg, type: 'value_error', input: wire.init_from.slice(0, 200) },
  ]);
}
