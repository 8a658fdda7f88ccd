import type { SettingRow } from '../setting-row.ts';

/** `9100`, `10.0.0.7:9100`, `[::1]:9100`. */
export const METRICS_LISTEN = /^(?:(\[[0-9a-fA-F:.]+\]|[\w.-]+):)?(\d{1,5})$/;

export const OPERATION = {
  drainGraceMs: {
    kind: 'integer',
    min: 0,
    max: 600_000,
    default: 5000,
    help: 'ms between SIGTERM (`/readyz` returns 503) and closing the port; 0 on a terminal and without the role `api`',
  },
  drainTimeoutMs: {
    kind: 'integer',
    min: 0,
    max: 3_600_000,
    default: 20_000,
    help: 'ms that a shutdown waits for running requests',
  },
  logFormat: {
    kind: 'choice',
    values: ['text', 'json'],
    default: 'text',
    help: '`text` = readable lines; `json` = one object per line',
  },
  metrics: {
    kind: 'choice',
    values: ['auto', 'open', 'key', 'off'],
    default: 'auto',
    help: 'access to `/metrics`: `auto`, `open`, `key` or `off`',
    more: '`auto`: everyone on a loopback address; elsewhere, with names in `--allowed-hosts`, and through a proxy, keys with the scope `admin`',
  },
  metricsListen: {
    kind: 'text',
    pattern: METRICS_LISTEN,
    form: 'PORT or HOST:PORT',
    defaultText: 'none',
    help: '`PORT` or `HOST:PORT` for `/metrics`, `/livez`, `/readyz` and `/health` of a process with role `engine` or `trainer`',
    more: 'default host: 127.0.0.1',
  },
} as const satisfies Record<string, SettingRow>;
