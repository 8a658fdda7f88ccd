import { HubError } from '../../seams/faults/hub-error.ts';
import { readHubSettings } from '../../hub/hub-settings.ts';
import { pullModel } from '../../hub/pull-model.ts';
import { PullPace } from '../../hub/pull-pace.ts';
import type { Log } from '../../seams/logging/log.ts';
import type { ServiceConfig } from '../settings/config.ts';
import type { ModelConfig } from '../settings/model-settings.ts';

/** Time between two lines about a download. */
const REPORT_MS = 10_000;

/**
 * Replaces models of a hub by their files in its cache, and downloads missing ones. A model that is complete in the
 * cache stays at its commit.
 * @throws {HubError}
 */
export async function fetchHubModels(config: ServiceConfig, log: Log): Promise<ServiceConfig> {
  const models: ModelConfig[] = [];
  for (const model of config.models) models.push(await fetchModel(model, log));
  return { ...config, models };
}

async function fetchModel(model: ModelConfig, log: Log): Promise<ModelConfig> {
  const { hub: reference } = model;
  if (reference === null) return model;
  const pace = new PullPace();
  const report = setInterval(() => log(`fetching ${reference.text}: ${pace.text}${leftOf(pace)}`), REPORT_MS);
  try {
    const pulled = await pullModel(reference, {
      settings: readHubSettings(process.env),
      refreshes: false,
      onProgress: (progress) => pace.see(progress),
    });
    if (pulled.downloadedBytes > 0) log(`fetched ${reference.text} at ${pulled.commit.slice(0, 8)} (${pace.text})`);
    return { ...model, path: pulled.path, hub: null };
  } catch (error) {
    // The text may have been meant as a path.
    if (!(error instanceof HubError) || error.code !== 'hub.not_found') throw error;
    throw new HubError(error.code, `${error.message}. There is no file or folder ${reference.text} here either`);
  } finally {
    clearInterval(report);
  }
}

function leftOf({ remainingSeconds }: PullPace): string {
  return remainingSeconds === null ? '' : `, about ${Math.ceil(remainingSeconds / 60)} min left`;
}
