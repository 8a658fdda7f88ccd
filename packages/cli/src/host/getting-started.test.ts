import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, onTestFinished, test } from 'vitest';

import { gettingStarted } from './getting-started.ts';

const service = {
  url: 'http://127.0.0.1:8420',
  modelIds: ['owner/model'],
  keyFile: '/data/admin-key',
  signInUrl: null,
};

test('it names the pages, and the key in full only when it is new', () => {
  const first = gettingStarted({ ...service, apiKey: { secret: 'ty_secret', isNew: true } }, 2.25);
  expect(first).toContain('Trainyard is ready in 2.3 s\nURL       http://127.0.0.1:8420/v1\nAPI key   ty_secret ');
  for (const page of ['http://127.0.0.1:8420/ ', 'http://127.0.0.1:8420/docs ']) expect(first).toContain(page);
  const second = gettingStarted({ ...service, apiKey: { secret: 'ty_secret', isNew: false } }, 2);
  expect(second).not.toContain('ty_secret');
  expect(gettingStarted({ ...service, modelIds: ['owner/model', 'b'], apiKey: null }, 2)).toContain(
    'Model     owner/model\n          b\nPages',
  );
  expect(gettingStarted({ ...service, apiKey: null }, 2)).toContain('no longer stored on this machine');
});

test('with a dashboard it has the link that signs in', () => {
  const signInUrl = 'http://127.0.0.1:8420/sign-in#code';
  expect(gettingStarted({ ...service, signInUrl, apiKey: null }, 2)).toContain(`Dashboard ${signInUrl}\n`);
});

test.each(['plain', 'with blanks', "with 'quotes' and $HOME"])(
  'a key file in a folder %s is read by a shell',
  (name) => {
    const folder = join(mkdtempSync(join(tmpdir(), 'trainyard-start-')), name);
    onTestFinished(() => rmSync(folder, { recursive: true }));
    mkdirSync(folder);
    const keyFile = join(folder, 'admin-key');
    writeFileSync(keyFile, 'ty_secret\n');
    const text = gettingStarted({ ...service, keyFile, apiKey: { secret: 'ty_secret', isNew: false } }, 2);
    const [line = ''] = /^export TRAINYARD_API_KEY=.*$/m.exec(text) ?? [];
    const { stdout } = spawnSync('sh', ['-c', `${line}\nprintf %s "$TRAINYARD_API_KEY"`], { encoding: 'utf8' });
    expect(stdout).toBe('ty_secret');
  },
);
