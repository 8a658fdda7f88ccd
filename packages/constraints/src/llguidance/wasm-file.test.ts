import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { BYTES } from '../testing/byte-test-vocabulary.ts';
import { Constraints } from '../constraints.ts';

const FOLDER = new URL('../../wasm/', import.meta.url);

describe('the committed build of llguidance', () => {
  test('has the committed digest', async () => {
    const bytes = await readFile(new URL('llguidance.wasm', FOLDER));
    const digest = createHash('sha256').update(bytes).digest('hex');
    expect(await readFile(new URL('llguidance.wasm.sha256', FOLDER), 'utf8')).toBe(`${digest}  llguidance.wasm\n`);
  });

  test('is of the version its Cargo.toml pins', async () => {
    const manifest = await readFile(new URL('Cargo.toml', FOLDER), 'utf8');
    const pinned = /llguidance = \{ version = "=([\d.]+)"/.exec(manifest)?.[1];
    using constraints = new Constraints(BYTES);
    expect(constraints.version.split(' ')[0]).toBe(`llguidance@${pinned}`);
  });

  test('has no path of the machine that built it', async () => {
    const text = (await readFile(new URL('llguidance.wasm', FOLDER))).toString('latin1');
    const paths = text.match(/\/(?:root|home|Users|work|tmp|builds?)\/[\w./-]{1,60}/g) ?? [];
    expect(paths).toEqual([]);
  });
});
