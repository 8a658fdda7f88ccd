import { spawnSync } from 'node:child_process';
import { resolve } from 'node:path';

import { expect, test } from 'vitest';

const PACKAGES = resolve(import.meta.dirname, '../..');

/** Reports each loaded module on stderr. */
const REPORT = `import { writeSync } from 'node:fs';
import { registerHooks } from 'node:module';
registerHooks({ load: (url, context, next) => (writeSync(2, url + '\\n'), next(url, context)) });`;

/** Modules that a program loads until it ends. @param file below `packages` */
function modulesOf(file: string, ...args: string[]): string[] {
  const hook = `data:text/javascript,${encodeURIComponent(REPORT)}`;
  const options = [`--import=${hook}`, '--conditions=@trainyard/source'];
  const { stderr } = spawnSync(process.execPath, [...options, resolve(PACKAGES, file), ...args], { encoding: 'utf8' });
  return stderr.split('\n').filter((line) => /^(?:file|node):/.test(line));
}

/** Parts of the service that take most of its start. */
const OF_A_SERVICE = /\/(?:typebox|ajv|fastify|pg)\/|\/trainer\/src\/|\/store\/src\/(?:index|sql-store)\.ts$/;

test('a command that starts no service loads neither the server nor its libraries', () => {
  const modules = modulesOf('cli/src/main.ts', 'jobs', 'list', '--url', 'http://127.0.0.1:1', '--api-key', 'key');
  expect(modules.some((url) => url.endsWith('/cli/src/commands/jobs.ts'))).toBe(true);
  expect(modules.filter((url) => OF_A_SERVICE.test(url))).toEqual([]);
});

test('the trainer host loads neither the schemas of requests nor a database', () => {
  // It ends because it has no options.
  const modules = modulesOf('server/src/hosts/training/trainer-host.ts');
  expect(modules.some((url) => url.endsWith('/trainer/src/index.ts'))).toBe(true);
  expect(modules.filter((url) => /\/(?:typebox|ajv|pg)\/|\/store\/src\/(?:index|sql-store)\.ts$/.test(url))).toEqual(
    [],
  );
});
