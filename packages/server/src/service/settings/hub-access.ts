import { does, type Role } from '../../seams/contract/role.ts';
import { isLoopbackName } from '../../seams/network/network-names.ts';
import { settingFault } from './setting-fault.ts';
import type { ModelConfig } from './model-settings.ts';
import type { SettingValues } from './setting-table.ts';

/** Base models of a hub that clients may name, in addition to those of the settings. */
export interface HubAccess {
  /** Reason why clients may name none, with the next step; null: they may. */
  readonly refusal: string | null;
  /** `Qwen/*`; a model must match one of them. */
  readonly patterns: readonly string[];
  /** Settings of such models, as of those without their own. */
  readonly model: Pick<ModelConfig, 'capacityTokens' | 'cacheMegabytes' | 'toolParser' | 'chatTemplate'>;
}

/** @throws {ServerError} `server.config_invalid` for `--hub on` in a process that could not serve such a model */
export function hubAccess(
  values: SettingValues,
  parts: { readonly role: Role; readonly models: readonly ModelConfig[]; readonly model: HubAccess['model'] },
): HubAccess {
  const { role, models, model } = parts;
  const patterns = values.hubAllow.split(',');
  const obstacle = obstacleOf(values, role, models);
  if (values.hub === 'on' && obstacle !== null) throw settingFault(`--hub on cannot be used here: ${obstacle}`);
  const isLocal =
    isLoopbackName(values.host) &&
    (values.allowedHosts ?? '').split(',').every((name) => name === '' || isLoopbackName(name));
  const isOff = values.hub === 'off' || (values.hub === 'auto' && !isLocal);
  const refusal = obstacle ?? (isOff ? '`--hub` is off: pass `--hub on`, or start the service with `--model`' : null);
  return { refusal, patterns, model };
}

/** Engines and trainers on other machines would not have the files. */
function obstacleOf(values: SettingValues, role: Role, models: readonly ModelConfig[]): string | null {
  if (!does(role, 'engine') || !does(role, 'trainer'))
    return `the role is ${role}, and other processes sample or train: run \`trainyard pull\` on their machines, and start engines and trainers with \`--model\``;
  if (values.trainerUrl !== null) return 'a remote trainer (`--trainer-url`) trains one base model';
  if (models.some(({ vllmUrls }) => vllmUrls.length > 0))
    return 'vLLM servers (`--vllm`) sample from one base model each';
  return null;
}

/** True if a pattern matches the whole name; `*` stands for any characters. */
export function allowsModel({ patterns }: Pick<HubAccess, 'patterns'>, name: string): boolean {
  return patterns.some((pattern) =>
    new RegExp(
      `^${pattern
        .split('*')
        .map((part) => RegExp.escape(part))
        .join('.*')}$`,
      'i',
    ).test(name),
  );
}
