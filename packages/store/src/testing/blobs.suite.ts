import { readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { JsonLine } from '../blobs/json-lines.ts';
import type { Blobs } from '../contract/blobs.ts';

export interface BlobsHarness {
  /** Returns another handle on the same blobs each time. */
  open(): Promise<Blobs>;
  destroy(): Promise<void>;
}

export function blobsSuite(name: string, makeHarness: () => Promise<BlobsHarness>): void {
  describe(`Blobs: ${name}`, () => {
    let harness: BlobsHarness;
    let blobs: Blobs;
    beforeEach(async () => {
      harness = await makeHarness();
      blobs = await harness.open();
    });
    afterEach(() => harness.destroy());

    it('bytes come back as they were, whole or streamed, and are replaced by a later put', async () => {
      expect(await blobs.put('a/raw', Uint8Array.of(0, 255, 10, 13))).toEqual({ sizeBytes: 4 });
      expect([...(await blobs.get('a/raw'))]).toEqual([0, 255, 10, 13]);
      const chunks = [Buffer.from('one'), Buffer.alloc(0), Buffer.from('two')];
      expect(await blobs.put('a/raw', chunks)).toEqual({ sizeBytes: 6 });
      expect(String(await blobs.get('a/raw'))).toBe('onetwo');
      const other = await harness.open();
      expect(String(await other.get('a/raw'))).toBe('onetwo');
      expect(readFileSync((await blobs.localFile('a/raw'))!, 'utf8')).toBe('onetwo');
      expect(await blobs.localFile('a/none')).toBeNull();
    });

    it('any JSON value survives, alone and as lines', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(fc.jsonValue(), { maxLength: 5 }), async (values) => {
          // JSON has no negative zero, so the stored values are those after JSON.
          const expected: unknown = JSON.parse(JSON.stringify(values));
          await blobs.putJson('value', values);
          expect(await blobs.getJson('value')).toEqual(expected);
          await blobs.putJsonLines('lines', values);
          expect(await Array.fromAsync(blobs.getJsonLines('lines'))).toEqual(expected);
        }),
        { numRuns: 50 },
      );
    });

    it('a line that is JSON already is stored as it is written, in one line, and read by the given reader', async () => {
      const written = '{"b":1.0,\r\n "10":12345678901234567890, "2":"\\n"}';
      await blobs.putJsonLines('written', [{ a: 1 }, new JsonLine(written), []]);
      const lines = ['{"a":1}', written.replace('\r\n', ' '), '[]'];
      expect(await Array.fromAsync(blobs.getJsonLines('written', (line) => line))).toEqual(lines);
      expect(await Array.fromAsync(blobs.getJsonLines('written'))).toEqual(lines.map((line) => JSON.parse(line)));
    });

    it('lines longer than a chunk survive, with characters of every length, and compress', async () => {
      const values = Array.from({ length: 40 }, (_, i) => ({ i, text: 'zug 列車 🚂'.repeat(3000 + i) }));
      const { sizeBytes } = await blobs.putJsonLines('big', values);
      expect(await Array.fromAsync(blobs.getJsonLines('big'))).toEqual(values);
      const lines = await text(await blobs.openJsonLines('big'));
      expect(lines).toBe(values.map((value) => `${JSON.stringify(value)}\n`).join(''));
      expect(sizeBytes).toBeLessThan(Buffer.byteLength(lines) / 20);
    });

    it('a reader may stop early', async () => {
      await blobs.putJsonLines(
        'lines',
        Array.from({ length: 10_000 }, (_, i) => i),
      );
      for await (const value of blobs.getJsonLines('lines')) if (value === 3) break;
      expect(await blobs.remove('lines')).toBe(true);
    });

    it('a source that fails, or a signal, leaves nothing new and the old blob whole', async () => {
      await blobs.putJsonLines('key', [1]);
      async function* failing(): AsyncGenerator<number> {
        yield 2;
        throw new Error('the client disconnected');
      }
      await expect(blobs.putJsonLines('key', failing())).rejects.toThrow('the client disconnected');
      const signal = AbortSignal.abort(new Error('stopped'));
      await expect(blobs.putJsonLines('key', [2], { signal })).rejects.toThrow('stopped');
      await expect(blobs.put('fresh', [Buffer.from('x')], { signal })).rejects.toThrow('stopped');
      expect(await Array.fromAsync(blobs.getJsonLines('key'))).toEqual([1]);
      expect(await blobs.listKeys()).toEqual(['key']);
    });

    it('missing blobs are reported as such, and can be removed without harm', async () => {
      const missing = { code: 'store.blob_missing' };
      await expect(blobs.get('none')).rejects.toMatchObject(missing);
      await expect(blobs.getJson('none')).rejects.toMatchObject(missing);
      await expect(blobs.openJsonLines('none')).rejects.toMatchObject(missing);
      await expect(Array.fromAsync(blobs.getJsonLines('none'))).rejects.toMatchObject(missing);
      expect(await blobs.remove('none')).toBe(false);
      expect(await blobs.removeDirectory('none')).toBe(false);
      expect(await blobs.localDirectory('none')).toBeNull();
    });

    it('keys are ids: nothing that a user could have named gets near a path', async () => {
      const bad = [
        '',
        '/',
        '..',
        '../a',
        'a/../b',
        '/a',
        'a/',
        'a//b',
        'A',
        'ä',
        'a b',
        'a.b',
        'a\0',
        'a\n',
        'x'.repeat(201),
      ];
      for (const key of bad) {
        const invalid = { code: 'store.key_invalid' };
        await expect(blobs.put(key, Uint8Array.of(1))).rejects.toMatchObject(invalid);
        await expect(blobs.get(key)).rejects.toMatchObject(invalid);
        await expect(blobs.has(key)).rejects.toMatchObject(invalid);
        await expect(blobs.remove(key)).rejects.toMatchObject(invalid);
        await expect(blobs.localDirectory(key)).rejects.toMatchObject(invalid);
        await expect(blobs.removeDirectory(key)).rejects.toMatchObject(invalid);
        await expect(blobs.commitDirectory(await blobs.stageDirectory(), key)).rejects.toMatchObject(invalid);
      }
      expect(await blobs.listKeys()).toEqual([]);
    });

    it('keys with equal prefixes do not affect each other', async () => {
      for (const key of ['a', 'a/b', 'a/b/c']) {
        await blobs.put(key, Buffer.from(key));
        await blobs.commitDirectory(await stagedWith(blobs, key), key);
      }
      expect(new Set(await blobs.listKeys())).toEqual(new Set(['a', 'a/b', 'a/b/c']));
      expect(new Set(await blobs.listDirectories())).toEqual(new Set(['a', 'a/b', 'a/b/c']));
      expect(await blobs.remove('a')).toBe(true);
      expect(await blobs.removeDirectory('a')).toBe(true);
      expect([await blobs.has('a'), await blobs.has('a/b')]).toEqual([false, true]);
      expect(await readFile(join((await blobs.localDirectory('a/b')) ?? '', 'file'), 'utf8')).toBe('a/b');
    });

    it('a directory appears whole under its key, is never replaced, and can be removed', async () => {
      const staged = await stagedWith(blobs, 'weights');
      await mkdir(join(staged, 'nested'));
      await writeFile(join(staged, 'nested', 'file'), 'deep');
      expect(await blobs.localDirectory('checkpoints/1')).toBeNull();
      await blobs.commitDirectory(staged, 'checkpoints/1');
      const path = (await blobs.localDirectory('checkpoints/1')) ?? '';
      expect((await readdir(path)).toSorted((a, b) => a.localeCompare(b))).toEqual(['file', 'nested']);
      const second = await stagedWith(blobs, 'other');
      const taken = { code: 'store.blob_exists' };
      await expect(blobs.commitDirectory(second, 'checkpoints/1')).rejects.toMatchObject(taken);
      await blobs.discardDirectory(second);
      expect(await readFile(join(path, 'file'), 'utf8')).toBe('weights');
      expect(await blobs.removeDirectory('checkpoints/1')).toBe(true);
      expect(await blobs.localDirectory('checkpoints/1')).toBeNull();
      expect(await blobs.listDirectories()).toEqual([]);
    });

    it('a directory can be had without a file, and whole after that', async () => {
      const staged = await blobs.stageDirectory();
      for (const name of ['weights.bin', 'optimizer.bin']) await writeFile(join(staged, name), name);
      await blobs.commitDirectory(staged, 'checkpoints/1');
      const other = await harness.open();
      for (const without of [['optimizer.bin'], ['none'], []]) {
        for (let time = 0; time < 2; time++) {
          const root = (await other.localDirectory('checkpoints/1', { without }))!;
          expect(await readFile(join(root, 'weights.bin'), 'utf8')).toBe('weights.bin');
          if (without[0] !== 'optimizer.bin')
            expect(await readFile(join(root, 'optimizer.bin'), 'utf8')).toBe('optimizer.bin');
        }
      }
      expect(await other.localDirectory('checkpoints/none', { without: ['optimizer.bin'] })).toBeNull();
    });

    it('one file of a directory can go, with a new list of the others; every handle sees it, and a repeat changes nothing', async () => {
      const staged = await blobs.stageDirectory();
      const files = { 'weights.bin': 'weights', 'optimizer.bin': 'state', SUMS: 'weights and optimizer' };
      for (const [name, content] of Object.entries(files)) await writeFile(join(staged, name), content);
      await blobs.commitDirectory(staged, 'checkpoints/1');
      expect(await blobs.directoryFiles('checkpoints/1')).toEqual(
        expect.arrayContaining([
          { path: 'SUMS', sizeBytes: 21 },
          { path: 'optimizer.bin', sizeBytes: 5 },
          { path: 'weights.bin', sizeBytes: 7 },
        ]),
      );
      const other = await harness.open();
      expect(await other.localDirectory('checkpoints/1')).not.toBeNull();

      const list = { path: 'SUMS', text: 'weights' };
      for (let time = 0; time < 2; time++) await blobs.removeDirectoryFile('checkpoints/1', 'optimizer.bin', list);
      await blobs.removeDirectoryFile('checkpoints/none', 'optimizer.bin', list);
      for (const handle of [blobs, await harness.open()]) {
        const root = (await handle.localDirectory('checkpoints/1'))!;
        expect((await readdir(root)).toSorted()).toEqual(['SUMS', 'weights.bin']);
        expect(await readFile(join(root, 'SUMS'), 'utf8')).toBe('weights');
        expect(await readFile(join(root, 'weights.bin'), 'utf8')).toBe('weights');
        expect(await handle.readDirectoryFile('checkpoints/1', 'optimizer.bin')).toBeNull();
        expect(String(await handle.readDirectoryFile('checkpoints/1', 'SUMS'))).toBe('weights');
      }
      expect(await blobs.directoryFiles('checkpoints/none')).toBeNull();
      expect(await blobs.listDirectories('checkpoints/')).toEqual(['checkpoints/1']);

      // It moves to the bin and back like any other.
      expect(await blobs.discard({ kind: 'directory', key: 'checkpoints/1' }, 5)).toBe(true);
      expect(await blobs.restore({ kind: 'directory', key: 'checkpoints/1', binnedAt: 5 })).toBe(true);
      expect(await readdir((await other.localDirectory('checkpoints/1'))!)).toContain('weights.bin');
      expect(await blobs.removeDirectory('checkpoints/1')).toBe(true);
    });

    it('of several commits of one key at once, one wins', async () => {
      const staged = await Promise.all(['a', 'b', 'c', 'd'].map((content) => stagedWith(blobs, content)));
      const results = await Promise.allSettled(staged.map((path) => blobs.commitDirectory(path, 'key')));
      expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(1);
      const reasons = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
      expect(reasons.map((reason: { code: string }) => reason.code)).toEqual(Array(3).fill('store.blob_exists'));
    });

    it('the bin hides a blob or a directory, gives it back whole, and ends it', async () => {
      await blobs.put('groups/1', Buffer.from('raw'));
      await blobs.putJson('groups/1', { same: 'key' });
      await blobs.commitDirectory(await stagedWith(blobs, 'weights'), 'checkpoints/1');
      expect(await blobs.listBin()).toEqual([]);
      const items = [
        { kind: 'blob', key: 'groups/1' },
        { kind: 'directory', key: 'checkpoints/1' },
      ] as const;
      for (const item of items) expect(await blobs.discard(item, 1_000)).toBe(true);
      for (const item of items) expect(await blobs.discard(item, 2_000)).toBe(false);
      const other = await harness.open();
      expect([await other.has('groups/1'), await other.localDirectory('checkpoints/1')]).toEqual([false, null]);
      expect([await other.listKeys(), await other.listDirectories()]).toEqual([[], []]);
      const binned = items.map((item) => ({ ...item, binnedAt: 1_000 }));
      expect(new Set(await other.listBin())).toEqual(new Set(binned));
      await other.removeUnfinished();
      for (const item of binned) expect(await other.restore(item)).toBe(true);
      for (const item of binned) expect(await other.restore(item)).toBe(false);
      expect(String(await other.get('groups/1'))).toBe('raw');
      expect(await other.getJson('groups/1')).toEqual({ same: 'key' });
      expect(await readFile(join((await other.localDirectory('checkpoints/1'))!, 'file'), 'utf8')).toBe('weights');

      for (const item of items) await other.discard(item, 3_000);
      // A new owner of the key stays.
      await blobs.commitDirectory(await stagedWith(blobs, 'new'), 'checkpoints/1');
      expect(await blobs.restore({ kind: 'directory', key: 'checkpoints/1', binnedAt: 3_000 })).toBe(false);
      for (const item of items) await blobs.removeBinned({ ...item, binnedAt: 3_000 });
      expect([await blobs.listBin(), await blobs.listKeys()]).toEqual([[], []]);
      expect(String(await blobs.readDirectoryFile('checkpoints/1', 'file'))).toBe('new');
      expect(await blobs.readDirectoryFile('checkpoints/1', 'none')).toBeNull();
      expect(await blobs.readDirectoryFile('checkpoints/2', 'file')).toBeNull();
    });

    it('lists keys by their prefix', async () => {
      for (const key of ['groups/1', 'groups/2', 'groupless', 'logs/1']) await blobs.putJson(key, 1);
      for (const key of ['checkpoints/a/1', 'checkpoints/b'])
        await blobs.commitDirectory(await stagedWith(blobs, key), key);
      expect((await blobs.listKeys('groups/')).toSorted()).toEqual(['groups/1', 'groups/2']);
      expect((await blobs.listKeys('group')).toSorted()).toEqual(['groupless', 'groups/1', 'groups/2']);
      expect(await blobs.listKeys('none/')).toEqual([]);
      expect(await blobs.listDirectories('checkpoints/a/')).toEqual(['checkpoints/a/1']);
      expect(await blobs.listDirectories('exports/')).toEqual([]);
    });

    it('only files staged by this handle can be committed or discarded', async () => {
      const outside = (await blobs.localDirectory('x')) ?? import.meta.dirname;
      await expect(blobs.commitDirectory(outside, 'key')).rejects.toMatchObject({ code: 'store.key_invalid' });
      await expect(blobs.discardDirectory(outside)).rejects.toMatchObject({ code: 'store.key_invalid' });
      expect((await readdir(outside)).length).toBeGreaterThan(0);
    });
  });
}

async function stagedWith(blobs: Blobs, content: string): Promise<string> {
  const staged = await blobs.stageDirectory();
  await writeFile(join(staged, 'file'), content);
  return staged;
}
