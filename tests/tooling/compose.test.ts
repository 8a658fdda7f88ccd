/** Compose files of docs/guide: their schema, a linter's rules, and their settings. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, onTestFinished, test } from 'vitest';

import { REPOSITORY, runScript } from './support/run-script.ts';

const EXAMPLES = join(REPOSITORY, 'examples');
const ONE_MACHINE = 'scale-out/compose.yaml';
const ROLES = ['api', 'engine', 'trainer'];
const composeOf = (role: string): string => `several-machines/${role}/compose.yaml`;
const FILES = [ONE_MACHINE, ...ROLES.map(composeOf)];
/** Variables of `secrets.env`, by the roles that need them. */
const SECRETS = new Map([
  ['TRAINYARD_DATABASE', ROLES],
  ['PGPASSWORD', ROLES],
  ['TRAINYARD_BUCKET', ROLES],
  ['AWS_ACCESS_KEY_ID', ROLES],
  ['AWS_SECRET_ACCESS_KEY', ROLES],
  ['TRAINYARD_ENGINE_SECRET', ROLES],
  ['TRAINYARD_API_KEY', ['api']],
]);
const lint = (path: string) => runScript('node_modules/dclint/bin/dclint.cjs', ['--max-warnings', '0', path]);
const read = (name: string): Promise<string> => readFile(join(EXAMPLES, name), 'utf8');

test.each(FILES)('a linter accepts %s, and finds a fault in a broken copy', async (name) => {
  expect(await lint(join(EXAMPLES, name))).toMatchObject({ exitCode: 0 });
  const directory = await mkdtemp(join(tmpdir(), 'compose-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const broken = join(directory, 'compose.yaml');
  const text = await read(name);
  await writeFile(broken, text.replaceAll('healthcheck:', 'healthchecks:'));
  const found = await lint(broken);
  expect(found.exitCode).not.toBe(0);
  expect(found.output).toContain('must NOT have additional properties');
});

test.each(FILES)('every flag and variable that %s passes to the service is a setting', async (name) => {
  const [compose, settings] = await Promise.all([
    read(name),
    readFile(join(REPOSITORY, 'docs/reference/settings.md'), 'utf8'),
  ]);
  // The one-machine file also has processes of others.
  const service = name === ONE_MACHINE ? /^ {2}trainyard:\n(?: {3,}.*\n|\n)*/m.exec(compose)![0] : compose;
  const flags = [...service.matchAll(/- (--[a-z-]+)(?:=|$)/gm)].map(([, flag]) => flag!);
  expect(flags.length).toBeGreaterThan(3);
  expect(flags.filter((flag) => !settings.includes(`\`${flag}\``))).toEqual([]);
  const variables = [...service.matchAll(/^ +(TRAINYARD_\w+):/gm)].map(([, variable]) => variable!);
  expect(variables.length).toBeGreaterThan(0);
  expect(variables.filter((variable) => !settings.includes(`\`${variable}\``))).toEqual([]);
});

test('the files for several machines contain no secret, and their page gives each to the roles that need it', async () => {
  const page = await read('several-machines/README.md');
  const ignored = await readFile(join(REPOSITORY, '.gitignore'), 'utf8');
  expect(ignored).toContain('/examples/several-machines/*/secrets.env');
  for (const role of ROLES) {
    const compose = await read(composeOf(role));
    expect(compose).toContain(`--role=${role}\n`);
    expect(compose).toContain('env_file: secrets.env');
    for (const [secret, roles] of SECRETS) {
      expect(compose).not.toContain(secret);
      const row = page.split('\n').find((line) => line.includes('|') && line.includes(`\`${secret}\``)) ?? '';
      const [, , ...cells] = row.split('|').map((cell) => cell.trim());
      expect([secret, cells.slice(0, ROLES.length)]).toEqual([
        secret,
        ROLES.map((each) => (roles.includes(each) ? 'yes' : '')),
      ]);
    }
    // The page explains every variable to set.
    for (const [, variable] of compose.matchAll(/\$\{(\w+)/g)) expect(page).toContain(`\`${variable}\``);
  }
});

test('nginx uses existing processes at the ports where they listen', async () => {
  const [api, apiProxy, engine, engineProxy] = await Promise.all(
    ['api/compose.yaml', 'api/nginx.conf', 'engine/compose.yaml', 'engine/nginx.conf'].map((name) =>
      read(`several-machines/${name}`),
    ),
  );
  const processes = [...api!.matchAll(/^ {2}(api-\d+):$/gm)].map(([, name]) => name);
  expect(processes).toHaveLength(2);
  expect([...apiProxy!.matchAll(/^ {2}server (.*):8080;$/gm)].map(([, name]) => name)).toEqual(processes);
  expect(api).toContain('--port=8080\n');
  expect(engineProxy).toContain('proxy_pass http://127.0.0.1:8420;');
  expect(engine).toContain('--port=8420\n');
  for (const [compose, proxy] of [
    [api!, apiProxy!],
    [engine!, engineProxy!],
  ] as const) {
    expect(proxy).toContain('listen 8443 ssl;');
    expect(compose).toContain('target: 8443\n');
    for (const [, file] of proxy.matchAll(/ssl_certificate(?:_key)? \/certificates\/(\S+);/g))
      expect(['server.crt', 'server.key']).toContain(file);
  }
});
