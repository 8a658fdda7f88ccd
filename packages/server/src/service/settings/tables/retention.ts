import { DEFAULT_KEEP_POLICY, isKeepPolicy, KEEP_POLICY_FORM } from '../../../jobs/checkpoints/keep-policy.ts';
import { readLifetime } from '../../../seams/contract/lifetime-setting.ts';
import type { SettingRow } from '../setting-row.ts';

export const RETENTION = {
  choiceRecords: {
    kind: 'choice',
    values: ['on', 'off'],
    default: 'on',
    help: '`on` = keep a sampling record of each choice of a trained model, for training; `off` = keep none',
  },
  choiceRecordHours: {
    kind: 'number',
    min: 0.01,
    max: 8760,
    default: 24,
    help: 'lifetime of sampling records, hours',
  },
  choiceRecordMegabytes: {
    kind: 'integer',
    min: 1,
    max: 65_536,
    default: 256,
    help: 'limit of all sampling records, MB; the oldest are removed first',
  },
  storeResponses: {
    kind: 'text',
    isValid: (text) => readLifetime(text) !== undefined,
    form: 'off, or a time up to 3650d such as 1d, 12h or 30m',
    default: '1d',
    help: 'lifetime of kept answers of `/v1/responses`, and of conversations after their last use: `1d`, `12h`, `30m` …; `off` = keep none',
  },
  storeResponsesMegabytes: {
    kind: 'integer',
    min: 1,
    max: 1_048_576,
    default: 256,
    help: 'limit of kept answers per entity, and of conversations, MB each; the oldest are removed first',
  },
  trajectoryDays: {
    kind: 'number',
    min: 0,
    max: 36_500,
    default: 30,
    help: 'lifetime of the data of ended jobs and of logged trajectories, days; 0 = forever',
  },
  tokenTraceMegabytes: {
    kind: 'integer',
    min: 0,
    max: 65_536,
    default: 64,
    help: 'trained tokens to keep for viewing, MB per model; the oldest are removed first; 0 = none',
  },
  keepCheckpoints: {
    kind: 'text',
    isValid: isKeepPolicy,
    form: KEEP_POLICY_FORM,
    default: DEFAULT_KEEP_POLICY,
    help: 'checkpoints to keep in addition to step 0, marked ones and those in use: comma-separated `last=N`, `best`, `every=K`, `optimizer=N` (keep N optimizer states, default 2); or `all`',
    more: 'see [checkpoints](../guide/checkpoints.md#keeping-and-deleting)',
  },
  removeOrphans: {
    kind: 'choice',
    values: ['known', 'all', 'none'],
    default: 'known',
    help: 'unreferenced blobs to remove: `known` = only blobs that this database once referenced; `all`; `none`',
  },
  orphanDays: {
    kind: 'number',
    min: 0,
    max: 36_500,
    default: 7,
    help: 'age at which an unreferenced blob moves to the bin, days',
  },
  binDays: { kind: 'number', min: 0, max: 36_500, default: 7, help: 'age at which a blob in the bin is removed, days' },
  orphanShare: {
    kind: 'number',
    min: 0,
    max: 1,
    default: 0.2,
    help: 'maximum share of all blobs to move to the bin at once; above it, none is moved',
  },
} as const satisfies Record<string, SettingRow>;
