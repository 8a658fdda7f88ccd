import { TINKER_PROFILES, type TinkerProfileName } from '@trainyard/tinker/profiles';

import { URL_FORM, URL_PATTERN, type SettingRow } from '../setting-row.ts';

const PROFILES = Object.keys(TINKER_PROFILES) as TinkerProfileName[];

export const TRAINING = {
  snapshotSteps: {
    kind: 'integer',
    min: 0,
    max: 1_000_000,
    defaultText: '5 on PostgreSQL, else 0',
    help: 'gradient steps between snapshots of a running job in the blobs, so that another machine can continue it; 0 = none',
  },
  tracker: {
    kind: 'text',
    isSecret: true,
    defaultText: 'none',
    help: 'also report the runs of all models to a tracker: `mlflow:http://HOST:PORT`',
    more: 'with `USER:PASSWORD@` before the host if it needs them',
  },
  trainerUrl: {
    kind: 'text',
    pattern: URL_PATTERN,
    form: URL_FORM,
    defaultText: 'none',
    help: 'URL of a Tinker server that trains instead of this machine',
    more: 'see [remote training](../guide/scaling.md#remote-training)',
  },
  trainerKey: {
    kind: 'text',
    pattern: /^[\x21-\x7e]+$/,
    isSecret: true,
    defaultText: 'none',
    help: 'key of the Tinker server; prefer the variable `TRAINYARD_TRAINER_KEY` over the flag',
    more: 'other users of the machine can read command lines',
  },
  trainerProfile: {
    kind: 'choice',
    values: PROFILES,
    default: 'skyrl',
    help: 'kind of Tinker server: `skyrl`, `skyrl-gpu`, `hosted`, `miles`, `fireworks` or `open-rl`',
    more: 'jobs on `open-rl` are refused because it has no checkpoints',
  },
  trainerModel: {
    kind: 'text',
    defaultText: 'its only one',
    help: 'name of the base model on the Tinker server',
    more: 'it must have the weights of the first `--model`',
  },
  trainerTimeoutSeconds: {
    kind: 'integer',
    min: 30,
    max: 86_400,
    default: 1800,
    help: 'timeout of one operation on the Tinker server, seconds',
  },
} as const satisfies Record<string, SettingRow>;
