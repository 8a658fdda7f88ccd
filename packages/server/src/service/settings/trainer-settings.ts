import type { TinkerProfileName } from '@trainyard/tinker';

import { settingFault } from './setting-fault.ts';
import { settingFlag, type SettingName, type SettingValues } from './setting-table.ts';

export interface TrainerConfig {
  /** address of a server of the Tinker protocol, without `/api/v1` */
  readonly url: string;
  /** null: it needs none */
  readonly apiKey: string | null;
  /** default `skyrl` */
  readonly profile: TinkerProfileName;
  /** name of the base model there; default null: its only one */
  readonly baseModel: string | null;
  /** time limit of one remote operation, ms; default 1 800 000 */
  readonly timeoutMs: number;
}

/** Settings that have no effect without `--trainer-url`. */
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
  throw settingFault(`${settingFlag(lone)} requires --trainer-url`);
}
