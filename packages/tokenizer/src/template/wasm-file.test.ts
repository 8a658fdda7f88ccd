import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';

const FOLDER = new URL('../../wasm/', import.meta.url);

describe('the committed build of the template engine', () => {
  test('has the committed digest', async () => {
    const bytes = await readFile(new URL('jinja.wasm', FOLDER));
    const digest = createHash('sha256').update(bytes).digest('hex');
    expect(await readFile(new URL('jinja.wasm.sha256', FOLDER), 'utf8')).toBe(`${digest}  jinja.wasm\n`);
  });

  test('imports nothing, so that a template has no host to reach', async () => {
    const { WebAssembly } = globalThis as unknown as {
      WebAssembly: { Module: { new (bytes: Uint8Array): object; imports(module: object): unknown[] } };
    };
    const module = new WebAssembly.Module(await readFile(new URL('jinja.wasm', FOLDER)));
    expect(WebAssembly.Module.imports(module)).toEqual([]);
  });

  test('has no path of the machine that built it', async () => {
    const text = (await readFile(new URL('jinja.wasm', FOLDER))).toString('latin1');
    expect(text.match(/\/(?:root|home|Users|work|tmp|builds?)\/[\w./-]{1,60}/g) ?? []).toEqual([]);
  });

  test('is of the version that its manifest, its script and its patch name', async () => {
    const manifest = await readFile(new URL('Cargo.toml', FOLDER), 'utf8');
    const version = /minijinja = \{ version = "=([\d.]+)"/.exec(manifest)?.[1];
    expect(await readFile(new URL('build.sh', FOLDER), 'utf8')).toContain(`crate=minijinja-${version}\n`);
    expect(await readFile(new URL('minijinja.patch', FOLDER), 'utf8')).toContain(`minijinja ${version} by`);
  });
});
