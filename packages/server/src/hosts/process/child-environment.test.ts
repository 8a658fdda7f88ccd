import { readFileSync } from 'node:fs';
import { glob } from 'node:fs/promises';
import { join, resolve } from 'node:path';

import { expect, test } from 'vitest';

import { blobSecrets, childEnvironment, childFlags } from './child-environment.ts';

test('a child gets what programs, libraries and connections read, and no key', () => {
  const passed = {
    PATH: '/bin',
    LC_ALL: 'C.UTF-8',
    OMP_NUM_THREADS: '2',
    NODE_COMPILE_CACHE: '/clone/.cache/compiled',
    TMPDIR: '/tmp',
    TZ: 'Asia/Tokyo',
    NODE_OPTIONS: '--use-system-ca',
    NODE_EXTRA_CA_CERTS: '/etc/authority.crt',
    SSL_CERT_FILE: '/etc/all.crt',
    NODE_USE_ENV_PROXY: '1',
    HTTPS_PROXY: 'http://proxy:3128',
    https_proxy: 'http://proxy:3128',
    no_proxy: 'localhost',
  };
  const kept = {
    TRAINYARD_API_KEY: 'secret',
    OPENAI_API_KEY: 'secret',
    AWS_SECRET_ACCESS_KEY: 'secret',
    PGPASSWORD: 'secret',
  };
  expect(childEnvironment({}, { ...passed, ...kept })).toEqual(passed);
  expect(childEnvironment({ OWN: 'its' }, { ...passed, ...kept })).toEqual({ ...passed, OWN: 'its' });
});

test('a child gets the flags that decide which servers are trusted and how they are reached', () => {
  const flags = ['--use-system-ca', '--use-env-proxy', '--tls-min-v1.3', '--inspect', '--eval', 'code'];
  expect(childFlags(flags).slice(2)).toEqual(flags.slice(0, 3));
});

test('only hosts that open the bucket get its key', () => {
  const environment = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b', TRAINYARD_API_KEY: 'c' };
  expect(blobSecrets({ kind: 'folder', root: '/data' }, environment)).toEqual({});
  const bucket = { kind: 's3', url: 'http://s3/b', region: 'r', cacheDirectory: '/c', cacheBytes: 1 } as const;
  expect(blobSecrets(bucket, environment)).toEqual({ AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' });
});

/**
 * Every child of the product by its file, with its environment. `inherited`: that of its process, whose
 * memory a thread also shares.
 */
const CHILDREN: Readonly<Record<string, 'shared list' | 'inherited' | 'time zone alone' | "the user's">> = {
  'cli/src/commands/open.ts': "the user's",
  'cli/src/host/compiled-sources.ts': "the user's",
  'constraints/src/validation/validator.ts': 'inherited',
  'decoder/src/team/thread-team.ts': 'inherited',
  'generation/src/prompt/long-texts.ts': 'inherited',
  'server/src/gateway/trajectory-bodies/body-thread-client.ts': 'shared list',
  'server/src/hosts/process/life-signs.ts': 'inherited',
  'server/src/hosts/process/supervised-host.ts': 'shared list',
  'server/src/service/settings/bf16-support.ts': 'shared list',
  'tokenizer/src/sandbox/sandbox-process.ts': 'time zone alone',
  'trainer/src/lanes/lane-threads.ts': 'inherited',
};

test('every process and thread of the product has its environment from the shared list, or is named here', async () => {
  const packages = resolve(import.meta.dirname, '../../../..');
  const found: Record<string, string> = {};
  for await (const path of glob('*/src/**/*.ts', { cwd: packages })) {
    if (/\.test\.ts$|\/testing\//.test(path)) continue;
    const source = readFileSync(join(packages, path), 'utf8');
    // Excludes methods with these names, after a dot or `#`.
    if (!/(?<![.#\w])(?:new Worker|fork|spawn|spawnSync|promisify\(exec(?:File)?\))\(/.test(source)) continue;
    found[path.replaceAll('\\', '/')] = /env: childEnvironment\(/.test(source)
      ? 'shared list'
      : /env: process\.env\['TZ'\]/.test(source)
        ? 'time zone alone'
        : /\benv:/.test(source) || path.startsWith('cli/')
          ? "the user's"
          : 'inherited';
  }
  expect(found).toEqual(CHILDREN);
});
