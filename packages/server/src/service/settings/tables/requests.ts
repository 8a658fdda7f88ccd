import { LOGPROBS_MODES, REQUEST_LIMITS } from '@trainyard/protocol/fields';

import { DEFAULT_MAX_LOGPROBS } from '../../../seams/contract/max-logprobs.ts';
import type { SettingRow } from '../setting-row.ts';

export const REQUESTS = {
  maxRequests: {
    kind: 'integer',
    min: 1,
    max: 1_000_000,
    default: 2048,
    help: 'maximum requests in flight, running and waiting; one more gets 429',
  },
  maxChoices: {
    kind: 'integer',
    min: 1,
    max: REQUEST_LIMITS.choices,
    defaultText: '`--max-sequences`',
    help: 'maximum choices (`n`) of one request',
  },
  maxLogprobs: {
    kind: 'integer',
    min: -1,
    max: 1_048_576,
    default: DEFAULT_MAX_LOGPROBS,
    help: 'maximum log-probabilities per token that a request may ask for; -1 = the whole vocabulary',
  },
  logprobsMode: {
    kind: 'choice',
    values: LOGPROBS_MODES,
    default: 'raw_logprobs',
    help: 'values in the log-probability fields, unless a request names a mode: `raw_logprobs`, `processed_logprobs`, `raw_logits` or `processed_logits`',
  },
  requestTemplates: {
    kind: 'choice',
    values: ['on', 'off'],
    default: 'on',
    help: '`on` = run chat templates sent with requests, in separate processes; `off` = refuse them',
  },
  reasoningContent: {
    kind: 'choice',
    values: ['on', 'off'],
    default: 'off',
    help: '`on` = also return reasoning as `reasoning_content`',
  },
  bodyTimeoutMs: {
    kind: 'integer',
    min: 1000,
    max: 86_400_000,
    default: 600_000,
    help: 'ms to receive the body of a request',
  },
  minBodyRate: {
    kind: 'integer',
    min: 1,
    max: 1_000_000_000,
    default: 500,
    help: 'minimum rate of a request body, bytes per second over 20 s',
  },
  readerTimeoutMs: {
    kind: 'integer',
    min: 0,
    max: 86_400_000,
    default: 60_000,
    help: 'ms after which a connection is closed if the client reads nothing of its response; 0 = never',
  },
  keepAliveSeconds: {
    kind: 'integer',
    min: 1,
    max: 86_400,
    default: 72,
    help: 'seconds to keep an idle connection open; more than the idle timeout of a load balancer in front, such as 620 for one of 600',
  },
} as const satisfies Record<string, SettingRow>;
