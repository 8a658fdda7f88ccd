import { expect, test } from 'vitest';

import { kvUseOf, processStartOf } from './server-metrics.ts';

const HELP = '# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.\n';

test.each([
  [`${HELP}# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25\n`, 0.25],
  ['vllm:gpu_cache_usage_perc{model_name="m"} 1.0\nvllm:num_requests_running 3.0\n', 1],
  ['vllm:kv_cache_usage_perc{engine="0"} 0.5\nvllm:kv_cache_usage_perc{engine="1"} 2.5e-1\n', 0.375],
  ['vllm:kv_cache_usage_perc 0\n', 0],
  ['vllm:kv_cache_usage_perc NaN\n', null],
  [HELP, null],
  ['', null],
])('%j gives %j', (metrics, use) => {
  expect(kvUseOf(metrics)).toBe(use);
});

test.each([
  ['# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.79083421e+09\n', 1_790_834_210],
  ['vllm:num_requests_running 3.0\n', null],
])('%j was started at %j', (metrics, startedAt) => {
  expect(processStartOf(metrics)).toBe(startedAt);
});
