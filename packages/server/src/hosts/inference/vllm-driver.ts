import type { TokenBackend } from '@trainyard/backend';
import { VllmBackend, type VllmBackendOptions } from '@trainyard/vllm';

import type { DriverParts } from './token-driver.ts';

/**
 * Settings of a pool of vLLM servers that its host receives as data. Without the key: other users can read
 * the arguments of a process.
 */
export type VllmDriverSettings = Pick<
  VllmBackendOptions,
  | 'urls'
  | 'model'
  | 'adapterDirectory'
  | 'adapterPath'
  | 'maxAdapters'
  | 'maxLoraRank'
  | 'probeDirectory'
  | 'schedulingPolicy'
  | 'maxRequests'
  | 'maxChoices'
  | 'reference'
  | 'times'
>;

export const VLLM_KEY_VARIABLE = 'TRAINYARD_VLLM_KEY';

/** Remote vLLM servers as the back end of this process's text. */
export async function openVllmDriver(
  settings: VllmDriverSettings,
  { modelId, text, log }: DriverParts,
): Promise<TokenBackend> {
  const apiKey = process.env[VLLM_KEY_VARIABLE] ?? null;
  delete process.env[VLLM_KEY_VARIABLE];
  return new VllmBackend({ ...settings, modelId, apiKey, ends: text.prompt.tokenizer, log });
}
