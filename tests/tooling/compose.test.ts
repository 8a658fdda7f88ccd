/** The compose file of docs/guide/scaling.md: its schema, a linter's rules, and the settings that it gives. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, onTestFinished, test } from 'vitest';

import { REPOSITORY, runScript } from './support/run-script.ts';

const FILE = join(REPOSITORY, 'examples/scale-out/compose.yaml');
const lint = (path: string) => runScript('node_modules/dclint/bin/dclint.cjs', ['--max-warnings', '0', path]);

test('a linter finds nothing to say of it, and finds what is wrong with another', async () => {
  expect(await lint(FILE)).toMatchObject({ exitCode: 0 });
  const directory = await mkdtemp(join(tmpdir(), 'compose-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  const broken = join(directory, 'compose.yaml');
  const text = await readFile(FILE, 'utf8');
  await writeFile(broken, text.replace('healthcheck:', 'healthchecks:'));
  const found = await lint(broken);
  expect(found.exitCode).not.toBe(0);
  expect(found.output).toContain('must NOT have additional properties');
});

test('every flag that it gives to the service is a setting', async () => {
  const [compose, readme] = await Promise.all(
    [FILE, join(REPOSITORY, 'README.md')].map((path) => readFile(path, 'utf8')),
  );
  const service = /^ {2}trainyard:\n(?: {3,}.*\n|\n)*/m.exec(compose!)![0];
  const flags = [...service.matchAll(/- (--[a-z-]+)(?:=|$)/gm)].map(([, flag]) => flag!);
  expect(flags.length).toBeGreaterThan(8);
  expect(flags.filter((flag) => !readme!.includes(`\`${flag}\``))).toEqual([]);
  const variables = [...service.matchAll(/^ +(TRAINYARD_\w+):/gm)].map(([, name]) => name!);
  expect(variables.length).toBeGreaterThan(2);
  expect(variables.filter((name) => !readme!.includes(`\`${name}\``))).toEqual([]);
});
