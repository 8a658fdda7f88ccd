import {
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { ModelFolder } from '@trainyard/trainer';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { type HubInfo, LoopbackHub } from '../testing/hub/loopback-hub.ts';
import { type TinyRepository, tinyRepository } from '../testing/hub/tiny-repository.ts';
import type { HubError } from '../seams/faults/hub-error.ts';
import type { HubSettings } from './hub-settings.ts';
import { readModelReference } from './model-reference.ts';
import { pullModel, type PullOptions, type PullProgress } from './pull-model.ts';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-pull-'));
let tiny: TinyRepository;
let hub: LoopbackHub;
let cacheDirectory: string;
beforeAll(async () => {
  tiny = await tinyRepository();
});
afterAll(() => rmSync(scratch, { recursive: true }));
beforeEach(async () => {
  hub = await LoopbackHub.open();
  cacheDirectory = mkdtempSync(join(scratch, 'cache-'));
});
afterEach(() => hub.close());

const settingsOf = (more: Partial<HubSettings> = {}): HubSettings => ({
  endpoint: hub.url,
  token: null,
  isOffline: false,
  cacheDirectory,
  ...more,
});

function pull(text: string, { settings, ...options }: Partial<PullOptions> = {}) {
  const reference = readModelReference(text)!;
  return pullModel(reference, { settings: settings ?? settingsOf(), refreshes: true, ...options });
}

async function refusalOf(text: string, options: Partial<PullOptions> = {}): Promise<[string, string]> {
  const error = (await pull(text, options).then(
    () => null,
    (thrown: unknown) => thrown,
  )) as HubError | null;
  expect(error?.name).toBe('HubError');
  expect(error!.message).not.toContain('\n');
  return [error!.code, error!.message];
}

/** Files below the cache, without its links. */
function contents(): string[] {
  if (!existsSync(cacheDirectory)) return [];
  return readdirSync(cacheDirectory, { recursive: true, encoding: 'utf8' })
    .filter((name) => !lstatSync(join(cacheDirectory, name)).isDirectory())
    .toSorted();
}

const blobs = () => contents().filter((name) => name.includes('/blobs/'));

describe('a repository in the Hugging Face format', () => {
  it('arrives in the layout of the cache, without the files that are not needed', async () => {
    const repository = hub.add('org/tiny', { ...tiny.folder, 'README.md': 'hi', 'pytorch_model.bin': 'pickle' });
    const commit = repository.commitOf('main')!;
    const seen: PullProgress[] = [];
    const pulled = await pull('org/tiny', { onProgress: (progress) => seen.push(progress) });
    expect(pulled).toMatchObject({ commit, path: join(cacheDirectory, 'models--org--tiny/snapshots', commit) });
    expect(readFileSync(join(cacheDirectory, 'models--org--tiny/refs/main'), 'utf8')).toBe(commit);
    expect(readdirSync(pulled.path).toSorted()).toEqual(Object.keys(tiny.folder).toSorted());
    for (const [name, bytes] of Object.entries(tiny.folder)) {
      expect(readFileSync(join(pulled.path, name))).toEqual(bytes);
      const digest = repository.files(commit).get(name)!;
      expect(readlinkSync(join(pulled.path, name))).toBe(`../../blobs/${digest.sha256 ?? digest.oid}`);
    }
    using folder = ModelFolder.open(pulled.path);
    expect(folder.tensors.length).toBeGreaterThan(0);
    const total = Object.values(tiny.folder).reduce((sum, { length }) => sum + length, 0);
    expect(pulled).toMatchObject({ sizeBytes: total, downloadedBytes: total });
    expect(seen.at(-1)).toEqual({ doneBytes: total, totalBytes: total });
    expect(blobs().filter((name) => name.includes('trainyard'))).toEqual([]);
  });

  it('is downloaded once', async () => {
    hub.add('org/tiny', tiny.folder);
    const first = await pull('org/tiny');
    const before = hub.requests.length;
    expect(await pull('org/tiny')).toEqual({ ...first, downloadedBytes: 0 });
    expect(hub.requests.slice(before).map(({ kind }) => kind)).toEqual(['info']);
  });

  it('has its weights in several files', async () => {
    const { 'model.safetensors': weights, ...rest } = tiny.folder;
    const index = { weight_map: { a: 'model-1.safetensors', b: 'model-2.safetensors' } };
    const names = { 'model-1.safetensors': weights!, 'model-2.safetensors': 'other' };
    hub.add('org/parts', {
      ...rest,
      ...names,
      'model.safetensors.index.json': JSON.stringify(index),
      'x.safetensors': 'no',
    });
    const { path } = await pull('org/parts');
    expect(readdirSync(path).filter((name) => name.endsWith('.safetensors'))).toEqual(Object.keys(names));
  });

  it('stays at its commit for a start, and a pull fetches the newest', async () => {
    const repository = hub.add('org/tiny', tiny.folder);
    const { commit } = await pull('org/tiny');
    const newer = repository.commit({ ...tiny.folder, 'generation_config.json': '{"eos_token_id": 258}' });
    expect(await pull('org/tiny', { refreshes: false })).toMatchObject({ commit, downloadedBytes: 0 });
    const before = blobs().length;
    expect((await pull('org/tiny')).commit).toBe(newer);
    expect(blobs().length).toBe(before + 1);
    expect((await pull(`org/tiny@${commit}`)).commit).toBe(commit);
  });

  it('is used from the cache without a hub, if it is complete', async () => {
    hub.add('org/tiny', tiny.folder);
    const { path } = await pull('org/tiny');
    const offline = { settings: settingsOf({ isOffline: true }) };
    expect((await pull('org/tiny', offline)).path).toBe(path);
    await hub.close();
    expect((await pull('org/tiny', { refreshes: false })).path).toBe(path);
    expect((await refusalOf('org/tiny'))[0]).toBe('hub.unreachable');
    rmSync(join(path, 'model.safetensors'));
    expect(await refusalOf('org/tiny', offline)).toEqual([
      'hub.unreachable',
      'HF_HUB_OFFLINE is set and org/tiny is not complete in the cache: unset it, or download the model on another machine',
    ]);
  });
});

describe('a GGUF file', () => {
  it('is named by its quantisation or its path', async () => {
    hub.add('org/quants', { 'm-Q8_0.gguf': tiny.gguf, 'sub/m.Q4_K_M.gguf': 'GGUF4', 'mmproj-Q8_0.gguf': 'GGUF' });
    expect(readFileSync((await pull('org/quants:q8_0')).path)).toEqual(tiny.gguf);
    expect((await pull('org/quants:Q4_K_M')).path).toMatch(/\/sub\/m\.Q4_K_M\.gguf$/);
    const { path } = await pull('org/quants/sub/m.Q4_K_M.gguf');
    expect(readFileSync(path, 'utf8')).toBe('GGUF4');
    expect(await pull('org/quants:q8_0', { settings: settingsOf({ isOffline: true }) })).toMatchObject({
      sizeBytes: tiny.gguf.length,
    });
  });

  it.each([
    ['org/quants', 'hub.model_unusable', 'org/quants has GGUF files: choose org/quants:Q4_0, org/quants:Q8_0'],
    [
      'org/quants:Q5_K',
      'hub.not_found',
      'org/quants has no GGUF file with Q5_K in its name; it has org/quants:Q4_0, org/quants:Q8_0',
    ],
    [
      'org/quants:Q4_0',
      'hub.model_unusable',
      'm-Q4_0-00001-of-00002.gguf of org/quants is one of several parts: use a repository with the model in one file',
    ],
    [
      'org/quants/other.gguf',
      'hub.not_found',
      'org/quants has no file other.gguf; it has org/quants:Q4_0, org/quants:Q8_0',
    ],
  ])('%s is refused with the files that are there', async (text, code, message) => {
    hub.add('org/quants', {
      'm-Q4_0-00001-of-00002.gguf': 'G',
      'm-Q4_0-00002-of-00002.gguf': 'G',
      'm-Q8_0.gguf': 'G',
    });
    expect(await refusalOf(text)).toEqual([code, message]);
    expect(contents()).toEqual([]);
  });
});

describe('a refusal is one line with the next step, before the weights', () => {
  const config = (fields: object) => JSON.stringify({ ...JSON.parse(String(tiny.folder['config.json'])), ...fields });

  it('for gated and private repositories, with and without a token', async () => {
    hub.add('org/gated', tiny.folder, 'gated');
    hub.add('org/private', tiny.folder, 'private');
    expect(await refusalOf('org/gated')).toEqual([
      'hub.access_denied',
      `Access to org/gated is restricted: accept its terms at ${hub.url}/org/gated, then set HF_TOKEN to a token of that account`,
    ]);
    expect(await refusalOf('org/private')).toEqual([
      'hub.not_found',
      `org/private does not exist at ${hub.url}, or it is private: check the name, or set HF_TOKEN for a private repository`,
    ]);
    expect(await refusalOf('org/gated', { settings: settingsOf({ token: 'hf_wrong' }) })).toEqual([
      'hub.access_denied',
      'The hub refused the token (HTTP 401): set HF_TOKEN to a valid one with access to org/gated',
    ]);
    for (const name of ['org/gated', 'org/private'])
      expect((await pull(name, { settings: settingsOf({ token: hub.token }) })).sizeBytes).toBeGreaterThan(0);
    expect(hub.requests.filter(({ kind, authorization }) => kind === 'storage' && authorization !== null)).toEqual([]);
  });

  it('for a missing repository, revision or hub', async () => {
    hub.add('org/tiny', tiny.folder);
    expect((await refusalOf('org/missing'))[0]).toBe('hub.not_found');
    expect(await refusalOf('org/tiny@v9')).toEqual([
      'hub.not_found',
      `org/tiny has no revision v9: ${hub.url}/org/tiny/tree/main lists its branches and tags`,
    ]);
    await hub.close();
    const settings = settingsOf();
    expect(await refusalOf('org/tiny', { settings })).toEqual([
      'hub.unreachable',
      expect.stringMatching(
        /^127\.0\.0\.1:\d+ is not reachable \(\w+\): check the network, or set HF_ENDPOINT to a mirror or HF_HUB_OFFLINE=1 to use the cache only$/,
      ),
    ]);
    expect(contents()).toEqual([]);
  });

  it.each([
    [
      'pickled weights',
      () => ({ 'config.json': config({}), 'pytorch_model.bin': 'x' }),
      'org/bad has only pickled weights, which can run code and are never read: use a repository with safetensors, or a GGUF file of the model (ORG/NAME:Q8_0)',
    ],
    [
      'another family',
      () => ({ ...tiny.folder, 'config.json': config({ model_type: 'mamba' }), 'm.Q8_0.gguf': 'G' }),
      /^org\/bad cannot be served: folders of the family "mamba" .* A GGUF file of the model works: .*\. The repository also has org\/bad:Q8_0$/,
    ],
    [
      'another tokenizer',
      () => ({ ...tiny.folder, 'tokenizer.json': '{"model": {"type": "Unigram"}}' }),
      /^org\/bad cannot be served: .*tokenizer/i,
    ],
    ['no weights', () => ({ 'config.json': config({}) }), /^org\/bad has no weights/],
    ['no config', () => ({ 'model.safetensors': 'x' }), /^org\/bad has no config\.json/],
  ])('for %s', async (_name, files, message) => {
    hub.add('org/bad', files());
    const [code, text] = await refusalOf('org/bad');
    expect(code).toBe('hub.model_unusable');
    expect(text).toMatch(message instanceof RegExp ? message : RegExp(`^${RegExp.escape(message)}$`));
    expect(hub.storageRequests()).toEqual([]);
  });

  it('for a disk without room', async () => {
    hub.add('org/tiny', tiny.folder);
    hub.editInfo = (info) => {
      info.siblings.find(({ rfilename }) => rfilename === 'model.safetensors')!.lfs!.size = 2 ** 49;
      return info;
    };
    const [code, message] = await refusalOf('org/tiny');
    expect(code).toBe('hub.disk_full');
    expect(message).toMatch(
      /^org\/tiny needs \d+ MB more, but the disk of the cache has \d+ MB free: free some space, /,
    );
    expect(hub.storageRequests()).toEqual([]);
  });
});

describe('an interrupted download', () => {
  const weightBytes = () => tiny.folder['model.safetensors']!.length;

  it('continues at the byte where the connection broke, several times', async () => {
    hub.add('org/tiny', tiny.folder);
    let cuts = 0;
    hub.fault = ({ kind }) => (kind === 'storage' && cuts++ < 3 ? { kind: 'cut', afterBytes: 20_000 } : null);
    const { path } = await pull('org/tiny');
    expect(readFileSync(join(path, 'model.safetensors'))).toEqual(tiny.folder['model.safetensors']);
    expect(hub.storageRequests().map(({ range }) => range)).toEqual([
      null,
      'bytes=20000-',
      'bytes=40000-',
      'bytes=60000-',
    ]);
  }, 30_000);

  it('starts over if the hub ignores the range, and if the bytes of before are damaged', async () => {
    hub.add('org/tiny', tiny.folder);
    hub.bytesPerSecond = 500_000;
    const aborted = new AbortController();
    const started = pull('org/tiny', {
      signal: aborted.signal,
      onProgress: ({ doneBytes, totalBytes }) => {
        if (totalBytes !== null && doneBytes > totalBytes - weightBytes() / 2) aborted.abort(new Error('enough'));
      },
    });
    await expect(started).rejects.toThrow('enough');
    const [partial] = blobs().filter((name) => name.endsWith('.trainyard.incomplete'));
    const place = join(cacheDirectory, partial!);
    const half = readFileSync(place);
    expect(half.length).toBeLessThan(weightBytes());
    half[5]! ^= 1;
    writeFileSync(place, half);
    const { path } = await pull('org/tiny');
    expect(readFileSync(join(path, 'model.safetensors'))).toEqual(tiny.folder['model.safetensors']);
    const ranges = hub.storageRequests().map(({ range }) => range);
    expect(ranges).toEqual([null, `bytes=${half.length}-`, null]);
  });

  it('is one line when it does not come back', async () => {
    hub.add('org/tiny', tiny.folder);
    hub.fault = ({ kind }) => (kind === 'storage' ? { kind: 'status', status: 503 } : null);
    const [code, message] = await refusalOf('org/tiny');
    expect(code).toBe('hub.unreachable');
    expect(message).toMatch(/^The download of model\.safetensors broke off 5 times .* start it again to continue$/);
  }, 60_000);
});

describe('a hub that lies', () => {
  const edited = (edit: (info: HubInfo) => unknown) => {
    hub.add('org/tiny', tiny.folder);
    hub.editInfo = edit;
    return refusalOf('org/tiny');
  };
  const refused = /^The hub's answer about org\/tiny@main is refused: /;

  it.each(['../../escape', '/etc/passwd', 'a/../../b', 'a\\b', 'C:/x', 'a//b', '', './a', 'a\0b'])(
    'cannot write outside the cache: %j',
    async (rfilename) => {
      const [code, message] = await edited((info) => ({
        ...info,
        siblings: [...info.siblings, { rfilename, size: 1, blobId: 'a'.repeat(40) }],
      }));
      expect([code, message]).toEqual(['hub.answer_invalid', expect.stringMatching(refused)]);
      expect(contents()).toEqual([]);
    },
  );

  it.each<[string, (info: HubInfo) => unknown]>([
    ['the commit', (info) => ({ ...info, sha: '../../../x' })],
    ['a digest', (info) => ({ ...info, siblings: [{ rfilename: 'a', size: 1, lfs: { sha256: '../../x', size: 1 } }] })],
    ['a blob id', (info) => ({ ...info, siblings: [{ rfilename: 'a', size: 1, blobId: '../x' }] })],
    ['a size', (info) => ({ ...info, siblings: [{ rfilename: 'a', size: -1, blobId: 'a'.repeat(40) }] })],
    ['the list', (info) => ({ ...info, siblings: 'all' })],
    ['everything', () => null],
  ])('is refused: %s', async (_name, edit) => {
    const [code, message] = await edited(edit);
    expect([code, message]).toEqual(['hub.answer_invalid', expect.stringMatching(refused)]);
    expect(contents()).toEqual([]);
  });

  it('cannot send other bytes than it listed', async () => {
    hub.add('org/tiny', tiny.folder);
    const bytes = Buffer.from(tiny.folder['model.safetensors']!);
    bytes[bytes.length - 1]! ^= 1;
    hub.fault = ({ kind }) => (kind === 'storage' ? { kind: 'body', bytes } : null);
    const [code, message] = await refusalOf('org/tiny');
    expect(code).toBe('hub.answer_invalid');
    expect(message).toMatch(/^model\.safetensors of org\/tiny is damaged: its digest is [0-9a-f]{64}, the hub lists /);
    expect(blobs().filter((name) => name.includes('trainyard'))).toEqual([]);
    expect(contents().some((name) => name.endsWith('model.safetensors') || name.includes('refs'))).toBe(false);
  });

  it.each(['storage', 'info', 'resolve'] as const)('cannot send without end (%s)', async (at) => {
    hub.add('org/tiny', tiny.folder);
    hub.fault = ({ kind }) => (kind === at ? { kind: 'endless' } : null);
    expect((await refusalOf('org/tiny'))[0]).toBe('hub.answer_invalid');
  });

  it('gets the token for itself only', async () => {
    hub.add('org/tiny', tiny.folder);
    const other = await LoopbackHub.open();
    hub.fault = ({ kind }) => (kind === 'resolve' ? { kind: 'redirect', location: `${other.url}/stolen` } : null);
    expect((await refusalOf('org/tiny', { settings: settingsOf({ token: hub.token }) }))[0]).toBe('hub.not_found');
    expect(other.requests).toMatchObject([{ path: '/stolen', authorization: null }]);
    expect(hub.requests.map(({ authorization }) => authorization)).toEqual(
      hub.requests.map(() => `Bearer ${hub.token}`),
    );
    await other.close();
  });

  it.each(['file:///etc/passwd', 'ftp://127.0.0.1/x', 'http://[', ''])('cannot redirect to %j', async (location) => {
    hub.add('org/tiny', tiny.folder);
    hub.fault = ({ kind }) => (kind === 'resolve' ? { kind: 'redirect', location } : null);
    expect((await refusalOf('org/tiny'))[0]).toBe('hub.answer_invalid');
  });

  it('cannot redirect in a circle', async () => {
    hub.add('org/tiny', tiny.folder);
    hub.fault = ({ kind, path }) => (kind === 'resolve' ? { kind: 'redirect', location: path } : null);
    expect((await refusalOf('org/tiny'))[1]).toContain('redirected more than 5 times');
  });
});
