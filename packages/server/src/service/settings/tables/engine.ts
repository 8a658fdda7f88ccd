import type { SettingRow } from '../setting-row.ts';

export const ENGINE = {
  capacityTokens: {
    kind: 'integer',
    min: 256,
    max: 16_777_216,
    defaultText: '16384, or as many as `--cache-megabytes` holds',
    help: 'KV cache of a base model in tokens, over all sequences',
    more: 'a token of the default model takes 46 kB',
  },
  cacheMegabytes: {
    kind: 'integer',
    min: 1,
    max: 16_777_216,
    defaultText: 'no limit',
    help: 'KV cache limit in MB; the smaller of this and `--capacity-tokens` applies',
  },
  adapterMegabytes: {
    kind: 'integer',
    min: 0,
    max: 16_777_216,
    default: 256,
    help: 'memory for adapters per base model, MB; adapters in use may exceed it',
  },
  maxSequences: {
    kind: 'integer',
    min: 1,
    max: 256,
    default: 128,
    help: 'maximum sequences in one batch',
  },
  engineShare: {
    kind: 'number',
    min: 0.05,
    max: 0.95,
    default: 0.7,
    help: 'share of compute time for sampling while training also has work',
    more: 'see [decision 27](../decisions/0027-cpu-arbitration.md)',
  },
  schedulingPolicy: {
    kind: 'choice',
    values: ['priority', 'fcfs'],
    default: 'priority',
    help: '`priority` = lower priorities first; `fcfs` = in order of arrival',
  },
} as const satisfies Record<string, SettingRow>;
