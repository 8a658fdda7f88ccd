import type { TinkerProfileName } from '@trainyard/tinker';

import { ServerError } from '../../seams/faults/server-error.ts';
import { settingFlag, type SettingName, type SettingValues } from './setting-table.ts';

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

/** Settings that mean nothing without `--trainer-url`. */
const NEED_URL = [
  'trainerKey',
  'trainerProfile',
  'trainerModel',
  'trainerTimeoutSeconds',
] as const satisfies readonly SettingName[];

/**
 * The remote trainer of the settings; null: this machine trains.
 *
 * @throws {ServerError} `server.config_invalid` for settings of a remote trainer without its address
 */
export function resolveTrainer(values: SettingValues, given: ReadonlySet<SettingName>): TrainerConfig | null {
  const { trainerUrl: url, trainerKey, trainerProfile, trainerModel, trainerTimeoutSeconds } = values;
  if (url !== null)
    return {
      url,
      apiKey: trainerKey,
      profile: trainerProfile,
      baseModel: trainerModel,
      timeoutMs: 1000 * trainerTimeoutSeconds,
    };
  const lone = NEED_URL.find((name) => given.has(name));
  if (lone === undefined) return null;
  throw new ServerError('server.config_invalid', `${settingFlag(lone)} requires --trainer-url`);
}
