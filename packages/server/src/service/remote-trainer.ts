import { contactServer, SYSTEM_CLOCK, TINKER_PROFILES } from '@trainyard/tinker';
import { TrainerError } from '@trainyard/trainer';

import { dataPaths } from '../data/data-directory.ts';
import { ServerError } from '../faults/server-error.ts';
import type { RemoteTrainerOptions } from '../hosts/messages.ts';
import type { ServiceConfig } from './config.ts';

/**
 * The options of the trainer host for a trainer elsewhere, once it was looked at; null: this machine trains.
 *
 * @throws {ServerError} `server.config_invalid` for a server that will not do: another protocol or version, a wrong key, no such base model. One that
 *   does not answer is told to the log: jobs wait for it.
 */
export async function remoteTrainer(
  config: ServiceConfig,
  log: (line: string) => void,
): Promise<RemoteTrainerOptions | null> {
  const { trainer, dataDirectory } = config;
  if (trainer === null) return null;
  const { url, profile, baseModel, timeoutMs, apiKey } = trainer;
  try {
    const facts = await contactServer({
      url,
      apiKey,
      baseModel,
      profile: TINKER_PROFILES[profile],
      clock: SYSTEM_CLOCK,
    });
    log(`training is done at ${facts.http.url} (${profile}), on its base model ${facts.baseModel}`);
    for (const note of facts.profile.notes) log(`${profile}: ${note}`);
  } catch (error) {
    if (!(error instanceof TrainerError)) throw error;
    if (error.retry !== 'wait') throw new ServerError('server.config_invalid', error.message, { cause: error });
    log(`${error.message}; until then training jobs wait`);
  }
  return { url, profile, baseModel, timeoutMs, stateDirectory: dataPaths(dataDirectory).trainer };
}
