import { contactServer, isUntrusted, type ServerFacts, SYSTEM_CLOCK, TINKER_PROFILES } from '@trainyard/tinker';
import { TrainerError } from '@trainyard/trainer';

import type { RemoteTrainerOptions } from '../process/messages.ts';

/** The outcome of a contact: what the log should say, and whether the server answered. */
export interface TrainerContact {
  readonly lines: readonly string[];
  /** Why jobs have to wait for it; null when it answered. */
  readonly absence: string | null;
  /** The server that answered. */
  readonly facts?: ServerFacts;
}

/**
 * Asks the trainer elsewhere what it is, from the process that trains by it: its certificates and proxies count.
 *
 * @throws {TrainerError} for a server that does not fit: another protocol or version, a wrong key, an untrusted certificate, no such base model
 */
export async function contactTrainer(
  { url, profile, baseModel }: Pick<RemoteTrainerOptions, 'url' | 'profile' | 'baseModel'>,
  apiKey: string | null,
): Promise<TrainerContact> {
  try {
    const facts = await contactServer({
      url,
      apiKey,
      baseModel,
      profile: TINKER_PROFILES[profile],
      clock: SYSTEM_CLOCK,
    });
    const found = `training runs at ${facts.http.url} (${profile}) with its base model ${facts.baseModel}`;
    return { lines: [found, ...facts.profile.notes.map((note) => `${profile}: ${note}`)], absence: null, facts };
  } catch (error) {
    if (!(error instanceof TrainerError) || error.retry !== 'wait' || isUntrusted(error)) throw error;
    return { lines: [`${error.message}; training jobs wait until then`], absence: error.message };
  }
}
