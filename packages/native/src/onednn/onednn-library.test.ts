import { expect, test } from 'vitest';
import { openBf16Library } from './bf16-library.ts';

const remedy = '`npm run bf16` fetches one, and TRAINYARD_ONEDNN names another';

test('a missing or different library is reported with the remedy', () => {
  expect(() => openBf16Library('/nowhere/libdnnl.so.3', 1)).toThrow(
    expect.objectContaining({
      code: 'native.library_mismatch',
      message: expect.stringMatching(/^cannot load oneDNN from \/nowhere\/libdnnl\.so\.3: .*npm run bf16/),
    }),
  );
  // A wrong library: the running program.
  expect(() => openBf16Library(process.execPath, 1)).toThrow(remedy);
});
