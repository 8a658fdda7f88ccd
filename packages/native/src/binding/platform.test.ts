import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { LLAMA_PACKAGE_VERSION, libraryDirectory, libraryPath } from './platform.ts';

test('a platform without prebuilt libraries is named with those that have them', () => {
  expect(() => libraryDirectory('sunos', 'sparc')).toThrow(
    expect.objectContaining({
      code: 'native.platform_unsupported',
      message: expect.stringMatching(/sunos-sparc.*linux-x64/),
    }),
  );
});

test('a supported platform whose package is absent gives the command that installs it', () => {
  const other = process.platform === 'win32' ? 'darwin' : 'win32';
  expect(() => libraryDirectory(other, 'x64')).toThrow(
    expect.objectContaining({
      code: 'native.platform_unsupported',
      message: expect.stringMatching(new RegExp(`npm install @node-llama-cpp/(mac|win)-x64@${LLAMA_PACKAGE_VERSION}`)),
    }),
  );
});

test('libraries are found by their bare name in the spellings of each platform', () => {
  const folder = mkdtempSync(join(tmpdir(), 'native-'));
  const spellings = {
    linux: ['libggml-base.so', 'libggml-cpu-x64.so', 'libggml.v0.5.0.so', 'libllama-common.so', 'libllama.v0.5.0.so'],
    mac: ['libggml-base.dylib', 'libggml-metal.so', 'libggml.metal.v0.5.0.dylib', 'libllama.metal.v0.5.0.dylib'],
    windows: ['ggml-base.dll', 'ggml.v0.5.0.dll', 'llama-common.dll', 'llama.v0.5.0.dll', 'llama-addon.lib'],
  };
  const found = Object.entries(spellings).map(([name, files]) => {
    const directory = mkdtempSync(join(folder, name));
    for (const file of files) writeFileSync(join(directory, file), '');
    return ['ggml-base', 'ggml', 'llama'].map((library) => libraryPath(directory, library).slice(directory.length + 1));
  });
  expect(found).toEqual([
    ['libggml-base.so', 'libggml.v0.5.0.so', 'libllama.v0.5.0.so'],
    ['libggml-base.dylib', 'libggml.metal.v0.5.0.dylib', 'libllama.metal.v0.5.0.dylib'],
    ['ggml-base.dll', 'ggml.v0.5.0.dll', 'llama.v0.5.0.dll'],
  ]);
  expect(() => libraryPath(folder, 'llama')).toThrow(expect.objectContaining({ code: 'native.library_mismatch' }));
});
