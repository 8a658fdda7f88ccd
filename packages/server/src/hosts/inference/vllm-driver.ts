import type { TokenBackend } from '@trainyard/backend';
import { VllmBackend, type VllmBackendOptions } from '@trainyard/vllm';

import type { DriverParts } from './token-driver.ts';

/** Everything of a pool of vLLM servers that crosses to its host as data. The key does not: arguments of a process are everybody's to read. */
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

/** The environment variable of the host that has the servers' key. */
export const VLLM_KEY_VARIABLE = 'TRAINYARD_VLLM_KEY';

/** vLLM servers elsewhere, under the text of this process. */
export async function openVllmDriver(
  settings: VllmDriverSettings,
  { modelId, text, log }: DriverParts,
): Promise<TokenBackend> {
  const apiKey = process.env[VLLM_KEY_VARIABLE] ?? null;
  // Not for children of this process.
  delete process.env[VLLM_KEY_VARIABLE];
  return new VllmBackend({ ...settings, modelId, apiKey, ends: text.prompt.tokenizer, log });
}
