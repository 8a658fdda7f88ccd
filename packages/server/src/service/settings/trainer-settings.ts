import type { TinkerProfileName } from '@trainyard/tinker';

import { ServerError } from '../../seams/faults/server-error.ts';

/** The server that trains in place of this machine. */
export interface TrainerConfig {
  /** address of a server of the Tinker protocol, without `/api/v1` */
  readonly url: string;
  /** null: it asks for none */
  readonly apiKey: string | null;
  /** default `skyrl` */
  readonly profile: TinkerProfileName;
  /** name of the base model there; default null: the only one that it has */
  readonly baseModel: string | null;
  /** how long one operation there may take, ms; default 1 800 000 */
  readonly timeoutMs: number;
}

interface TrainerSettings {
  readonly trainerUrl: string | undefined;
  readonly trainerKey: string | undefined;
  readonly trainerProfile: string | undefined;
  readonly trainerModel: string | undefined;
  readonly trainerTimeoutSeconds: number | undefined;
}

const DEFAULT_TIMEOUT_SECONDS = 1800;

/**
 * The trainer that settings choose; null: this machine.
 *
 * @throws {ServerError} `server.config_invalid` for settings of a trainer elsewhere without its address, and beside `deterministic`
 */
export function resolveTrainer(settings: TrainerSettings, isDeterministic: boolean): TrainerConfig | null {
  const { trainerUrl: url, trainerKey, trainerProfile, trainerModel, trainerTimeoutSeconds } = settings;
  const others = { trainerKey, trainerProfile, trainerModel, trainerTimeoutSeconds };
  if (url === undefined) {
    const given = Object.entries(others).find(([, value]) => value !== undefined)?.[0];
    if (given === undefined) return null;
    throw new ServerError('server.config_invalid', `${flagOf(given)} requires --trainer-url`);
  }
  if (isDeterministic)
    throw new ServerError('server.config_invalid', '--deterministic cannot be used with --trainer-url');
  return {
    url,
    apiKey: trainerKey ?? null,
    profile: (trainerProfile ?? 'skyrl') as TinkerProfileName,
    baseModel: trainerModel ?? null,
    timeoutMs: 1000 * (trainerTimeoutSeconds ?? DEFAULT_TIMEOUT_SECONDS),
  };
}

function flagOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
