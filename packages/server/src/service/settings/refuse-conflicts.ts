import { isLogitsMode, logprobsModeOf } from '@trainyard/protocol/fields';
import type { StoreLocation } from '@trainyard/store';

import { does, type Role } from '../../seams/contract/role.ts';
import { settingFault } from './setting-fault.ts';
import type { ModelConfig } from './model-settings.ts';
import { SETTING_HEADINGS, settingFlag, type SettingName, type SettingValues } from './setting-table.ts';

interface Settings {
  readonly values: SettingValues;
  readonly given: ReadonlySet<SettingName>;
  readonly role: Role;
  readonly database: StoreLocation;
  readonly models: readonly ModelConfig[];
}

const VLLM_SETTINGS = SETTING_HEADINGS.find(({ heading }) => heading === 'vLLM servers')?.names ?? [];

/**
 * Refuses settings that exclude each other, or that this process would not use.
 * @throws {ServerError} `server.config_invalid`
 */
export function refuseConflicts({ values, given, role, database, models }: Settings): void {
  const hasServers = models.some(({ vllmUrls }) => vllmUrls.length > 0);
  const { precision, logprobsMode } = values;
  const serverSetting = VLLM_SETTINGS.find((name) => name !== 'vllm' && given.has(name));
  if (serverSetting !== undefined && !hasServers) throw settingFault(`${settingFlag(serverSetting)} requires --vllm`);
  if (hasServers && isLogitsMode(logprobsModeOf(logprobsMode)))
    throw settingFault(`--logprobs-mode must be a mode of log-probabilities with --vllm, got ${logprobsMode}`);
  if (values.deterministic === 'on' && (precision === 'fast' || precision === 'bf16'))
    throw settingFault(`--deterministic requires --precision exact or strict, got ${precision}`);
  if (values.weights === 'streamed' && precision === 'bf16')
    throw settingFault('--weights streamed requires --precision exact, strict or fast, got bf16');
  if (values.deterministic === 'on' && given.has('trainerUrl'))
    throw settingFault('--deterministic cannot be used with --trainer-url');
  if (role !== 'all' && database.kind !== 'postgres')
    throw settingFault(`--role ${role} needs a shared database: set --database to postgres://…`);
  if (hasServers && does(role, 'api') && !does(role, 'engine'))
    throw settingFault(
      `--vllm needs --role engine (the role is ${role}): pass it to an engine, or use --role ${role.replace('api', 'api,engine')}`,
    );
  if (given.has('engineUrl') && does(role, 'api'))
    throw settingFault(`--engine-url needs --role engine (the role is ${role})`);
}
