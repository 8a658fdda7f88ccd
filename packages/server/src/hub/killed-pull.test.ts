/** Pulls that are killed: the next one continues, and the cache of others never has half a file. */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as delay } from 'node:timers/promises';

import { afterAll, beforeAll, expect, it } from 'vitest';

import { LoopbackHub } from '../testing/hub/loopback-hub.ts';
import { type TinyRepository, tinyRepository } from '../testing/hub/tiny-repository.ts';
import { readModelReference } from './model-reference.ts';
import { pullModel } from './pull-model.ts';

const PROGRAM = fileURLToPath(new URL('pull.fixture.ts', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'trainyard-killed-pull-'));
let tiny: TinyRepository;
beforeAll(async () => {
  tiny = await tinyRepository();
});
afterAll(() => rmSync(scratch, { recursive: true }));

interface Moment {
  readonly name: string;
  /** True when the process is to be killed. */
  readonly isNow: (hub: LoopbackHub, cacheDirectory: string) => boolean;
}

const numOf = (hub: LoopbackHub, kind: string) => hub.requests.filter((request) => request.kind === kind).length;

/** Bytes of the weights that are here, before they are whole. */
const partialBytes = (cacheDirectory: string): number => {
  const digest = createHash('sha256').update(tiny.folder['model.safetensors']!).digest('hex');
  try {
    const names = readdirSync(cacheDirectory, { recursive: true, encoding: 'utf8' });
    const name = names.find((path) => path.endsWith(`${digest}.trainyard.incomplete`));
    return name === undefined ? 0 : statSync(join(cacheDirectory, name)).size;
  } catch {
    return 0;
  }
};

const MOMENTS: readonly Moment[] = [
  { name: 'after it asked for the files', isNow: (hub) => numOf(hub, 'info') > 0 },
  { name: 'during the small files', isNow: (hub) => numOf(hub, 'resolve') > 1 },
  { name: 'at the start of the weights', isNow: (hub) => numOf(hub, 'storage') > 0 },
  {
    name: 'in the middle of the weights',
    isNow: (hub, cache) => numOf(hub, 'storage') > 0 && partialBytes(cache) > 60_000,
  },
];

it.each(MOMENTS)('a pull killed $name is continued', async ({ isNow }) => {
  const hub = await LoopbackHub.open();
  const cacheDirectory = mkdtempSync(join(scratch, 'cache-'));
  try {
    hub.add('org/tiny', tiny.folder);
    hub.bytesPerSecond = 100_000;
    const killed = spawn(process.execPath, ['--conditions=@trainyard/source', PROGRAM, 'org/tiny'], {
      env: { ...process.env, HF_ENDPOINT: hub.url, HF_HUB_CACHE: cacheDirectory, HF_TOKEN: '' },
      stdio: 'inherit',
    });
    const ended = once(killed, 'exit');
    while (!isNow(hub, cacheDirectory) && killed.exitCode === null) await delay(5);
    killed.kill('SIGKILL');
    expect(await ended).toEqual([null, 'SIGKILL']);
    const kept = partialBytes(cacheDirectory);
    hub.bytesPerSecond = null;
    hub.requests.length = 0;

    const settings = { endpoint: hub.url, token: null, isOffline: false, cacheDirectory };
    const { path } = await pullModel(readModelReference('org/tiny')!, { settings, refreshes: true });
    for (const [name, bytes] of Object.entries(tiny.folder)) expect(readFileSync(join(path, name))).toEqual(bytes);
    expect(hub.storageRequests().map(({ range }) => range)).toEqual([kept === 0 ? null : `bytes=${kept}-`]);
    const left = readdirSync(cacheDirectory, { recursive: true, encoding: 'utf8' });
    expect(left.filter((name) => name.includes('trainyard') || name.includes('incomplete'))).toEqual([]);
  } finally {
    await hub.close();
  }
});

it('two pulls at once download each file once', async () => {
  const hub = await LoopbackHub.open();
  try {
    hub.add('org/tiny', tiny.folder);
    const settings = {
      endpoint: hub.url,
      token: null,
      isOffline: false,
      cacheDirectory: mkdtempSync(join(scratch, 'c-')),
    };
    const options = { settings, refreshes: true };
    const [one, other] = await Promise.all([1, 2].map(() => pullModel(readModelReference('org/tiny')!, options)));
    expect(one!.path).toBe(other!.path);
    expect(hub.storageRequests().length).toBe(1);
    expect(readFileSync(join(one!.path, 'model.safetensors'))).toEqual(tiny.folder['model.safetensors']);
  } finally {
    await hub.close();
  }
});
