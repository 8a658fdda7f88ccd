import type { SettingRow } from '../setting-row.ts';

export const VLLM = {
  vllm: {
    kind: 'text',
    isList: true,
    defaultText: 'none',
    help: 'vLLM server to sample with, `http://HOST:PORT` or `ID=http://HOST:PORT`; repeatable',
    more: 'several servers of one base model are a pool',
  },
  vllmKey: {
    kind: 'text',
    pattern: /^[\x21-\x7e]+$/,
    isSecret: true,
    defaultText: 'none',
    help: 'API key of the vLLM servers',
  },
  vllmModel: { kind: 'text', defaultText: 'the only one', help: 'name of the base model on the vLLM servers' },
  vllmAdapterDir: {
    kind: 'text',
    defaultText: 'none',
    help: 'folder for adapters, shared with the vLLM servers',
    more: 'without it they must see the data folder',
  },
  vllmAdapterPath: {
    kind: 'text',
    pattern: /^\//,
    form: 'an absolute path',
    defaultText: 'the same path',
    help: '`--vllm-adapter-dir` as seen by the vLLM servers',
  },
  vllmMaxAdapters: {
    kind: 'integer',
    min: 1,
    max: 65_536,
    default: 16,
    help: 'adapters loaded on each vLLM server',
  },
  vllmMaxLoraRank: {
    kind: 'integer',
    min: 1,
    max: 4096,
    defaultText: 'read from them',
    help: 'maximum adapter rank of the vLLM servers',
    more: 'the smallest `--max-lora-rank` of the servers; a larger `lora.rank` is refused at registration',
  },
  vllmSchedulingPolicy: {
    kind: 'choice',
    values: ['fcfs', 'priority'],
    default: 'fcfs',
    help: 'scheduling policy of the vLLM servers: `fcfs` or `priority`',
    more: 'with `priority`, priorities are passed on',
  },
  vllmCheck: {
    kind: 'choice',
    values: ['on', 'off'],
    default: 'on',
    help: '`on` = check that the vLLM servers have the same model as the file; `off` = skip the check',
  },
} as const satisfies Record<string, SettingRow>;
