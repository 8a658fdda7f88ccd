import { readServerAddress } from '@trainyard/vllm/address';

import { settingFault } from './setting-fault.ts';
import type { ModelConfig } from './model-settings.ts';

/**
 * Models with the vLLM servers that sample from each.
 * @param texts `URL`, for the first model, or `ID=URL`
 * @throws {ServerError} `server.config_invalid` for an unknown id, and for an invalid URL
 */
export function withServers(
  models: readonly ModelConfig[],
  texts: readonly { readonly text: string; readonly source: string }[],
): ModelConfig[] {
  const servers = texts.map(({ text, source }) => readServer(text, source, models));
  return models.map((model) => ({
    ...model,
    vllmUrls: servers.filter(({ id }) => id === model.id).map(({ url }) => url),
  }));
}

function readServer(text: string, source: string, models: readonly ModelConfig[]): { id: string; url: string } {
  const [, named, url = text] = /^(?:(.+)=)?(https?:\/\/.*)$/.exec(text) ?? [];
  const invalid = (what: string) => settingFault(`${source} ${what}`);
  if (readServerAddress(url) === null)
    throw invalid(
      `must be http://HOST:PORT, or ID=http://HOST:PORT for one of several models, got ${JSON.stringify(text)}`,
    );
  const model = models.find(({ id }, index) => (named === undefined ? index === 0 : id === named));
  if (model !== undefined) return { id: model.id, url };
  throw invalid(`has the model ${named}, which is not served; served: ${models.map(({ id }) => id).join(', ')}`);
}
