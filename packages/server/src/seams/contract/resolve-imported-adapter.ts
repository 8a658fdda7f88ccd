import type { Adapter, LoraShape, Store } from '@trainyard/store';

import { RequestError } from '../faults/request-error.ts';

const SCHEME = 'adapter:';

export const adapterName = (adapterId: string): string => `${SCHEME}${adapterId}`;

export const isAdapterName = (name: string): boolean => name.startsWith(SCHEME);

/** @returns null for an unknown id, another entity's adapter, or another kind of name */
export async function findImportedAdapter(
  store: Store,
  { name, entityId }: { readonly name: string; readonly entityId: string },
): Promise<Adapter | null> {
  const adapter = isAdapterName(name) ? await store.adapters.get(name.slice(SCHEME.length)) : null;
  return adapter?.entityId === entityId ? adapter : null;
}

/**
 * Imported adapter that `adapter:ID` names: initial weights of a model. Its directory has the layout of a
 * checkpoint, without optimizer state. A checkpoint that names the directory keeps it, even after the adapter
 * is deleted.
 * @throws {RequestError} `request.not_found` for an unknown id and for another entity's; `request.conflict`
 * for an uncommitted upload, and for another base model than `baseModel`
 */
export async function resolveImportedAdapter(
  store: Store,
  options: { readonly name: string; readonly entityId: string; readonly baseModel?: string; readonly param: string },
): Promise<{ directoryKey: string; digest: string; lora: LoraShape; baseModel: string }> {
  const { name, baseModel, param } = options;
  const adapter = await findImportedAdapter(store, options);
  if (adapter === null) {
    const shown = JSON.stringify(name.slice(0, 100));
    throw new RequestError('request.not_found', `The adapter ${shown} does not exist`, { param });
  }
  if (adapter.content === null) {
    throw new RequestError('request.conflict', `The adapter ${name} is not committed yet`, { param });
  }
  if (baseModel !== undefined && adapter.baseModel !== baseModel) {
    throw new RequestError(
      'request.conflict',
      `The adapter ${name} is for the base model \`${adapter.baseModel}\`, not \`${baseModel}\``,
      { param },
    );
  }
  return { ...adapter.content, baseModel: adapter.baseModel };
}
