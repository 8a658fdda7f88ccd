import type { HubSettings } from '../../hub/hub-settings.ts';
import { readModelReference } from '../../hub/model-reference.ts';
import { type PulledModel, pullModel } from '../../hub/pull-model.ts';

/** Pulls a model without a token, as `trainyard pull` does. */
export async function pullFromHub(
  text: string,
  settings: Pick<HubSettings, 'endpoint' | 'cacheDirectory'>,
): Promise<PulledModel> {
  const reference = readModelReference(text);
  if (reference === null) throw new Error(`${text} is no model of a hub`);
  return await pullModel(reference, { settings: { ...settings, token: null, isOffline: false }, refreshes: true });
}
