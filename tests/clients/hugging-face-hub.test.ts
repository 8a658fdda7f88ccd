/**
 * The unmodified `huggingface_hub` client (Python) and ours on the loopback hub: the first shows that the loopback
 * hub answers as the real one does, and both that they share one cache.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { LoopbackHub, pullFromHub, tinyRepository } from '@trainyard/server/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const hasPython = await hasPythonEnvironment(ROOT, 'clients');
if (!hasPython && process.env['CI'] !== undefined)
  throw new Error('CI must run the Python client: "node scripts/bootstrap.mjs --python" shows the reason');

interface Report {
  version: string;
  sha: string;
  files: Record<string, [number, string]>;
  tree: string[];
  path: string;
  older: string;
  file: string;
  refusals: Record<string, string | null>;
  cache: [string, number, number][];
  warnings: string[];
}

describe.skipIf(!hasPython)('the unmodified huggingface_hub client', () => {
  const cache = mkdtempSync(join(tmpdir(), 'trainyard-hub-cache-'));
  let hub: LoopbackHub;
  let files: Record<string, Buffer>;
  let commits: { older: string; newer: string };

  async function python(): Promise<Report> {
    const { stdout } = await promisify(execFile)(
      pythonEnvironment(ROOT, 'clients').python,
      [join(import.meta.dirname, 'hugging_face_client.py'), hub.url, cache, hub.token],
      { timeout: 120_000, env: { ...process.env, HF_TOKEN: '', HF_HUB_OFFLINE: '', HF_HUB_DISABLE_TELEMETRY: '1' } },
    );
    return JSON.parse(/^REPORT (.*)$/m.exec(stdout)![1]!) as Report;
  }

  beforeAll(async () => {
    hub = await LoopbackHub.open();
    files = { ...(await tinyRepository()).folder };
    const repository = hub.add('org/tiny', { ...files, 'config.json': '{}' });
    const older = repository.commit({ 'config.json': '{}' }, 'v1');
    commits = { older, newer: repository.commit({ ...files, 'README.md': 'A tiny model.\n' }) };
    hub.add('org/gated', files, 'gated');
    hub.add('org/private', files, 'private');
  });
  afterAll(async () => {
    await hub.close();
    for (const path of [cache, `${cache}-2`]) rmSync(path, { recursive: true, force: true });
  });

  it('lists, downloads and is refused as at the real hub, and continues a cache of ours', async () => {
    const ours = await pullFromHub('org/tiny', { endpoint: hub.url, cacheDirectory: cache });
    const before = hub.storageRequests().length;
    const report = await python();
    console.log(`huggingface_hub ${report.version}: ${JSON.stringify(report.refusals)}`);
    expect(report.sha).toBe(commits.newer);
    expect(report.path).toBe(ours.path);
    // All weights were there already.
    expect(hub.storageRequests().length).toBe(before);
    expect(report.tree).toEqual([...Object.keys(files), 'README.md'].toSorted());
    expect(report.files['config.json']![0]).toBe(files['config.json']!.length);
    expect(report.older.endsWith(`/snapshots/${commits.older}`)).toBe(true);
    expect(readFileSync(report.file)).toEqual(files['config.json']);
    expect(report.refusals).toEqual({
      missing: 'RepositoryNotFoundError',
      revision: 'RevisionNotFoundError',
      gated: 'GatedRepoError',
      private: 'RepositoryNotFoundError',
      token: expect.stringMatching(/HTTPError/i),
    });
    expect(report.cache).toEqual([
      ['org/gated', 1, 1],
      ['org/tiny', Object.keys(files).length + 1, 2],
    ]);
    expect(report.warnings).toEqual([]);
  }, 120_000);

  it('leaves a cache that ours uses without a download', async () => {
    rmSync(cache, { recursive: true });
    const { path, files: listed } = await python();
    const before = hub.storageRequests().length;
    const ours = await pullFromHub('org/tiny', { endpoint: hub.url, cacheDirectory: cache });
    expect(ours).toMatchObject({ path, downloadedBytes: 0, commit: commits.newer });
    expect(hub.storageRequests().length).toBe(before);
    expect(Object.keys(listed)).toContain('model.safetensors');
  }, 120_000);
});
