import { expect, test } from 'vitest';

import { changed } from './changed.ts';

test('changes set, repeat and remove parameters and keep the others', () => {
  const parameters = new URLSearchParams('view=all&outcome=trained&tag=a&tag=b');
  expect(String(changed(parameters, { outcome: null, min: '0', tag: ['b', 'c'] }))).toBe('view=all&min=0&tag=b&tag=c');
  expect(String(changed(parameters, { tag: [], outcome: '' }))).toBe('view=all&outcome=');
  expect(String(parameters)).toBe('view=all&outcome=trained&tag=a&tag=b');
});
