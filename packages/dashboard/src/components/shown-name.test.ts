import { expect, test } from 'vitest';

import { shownIfText, shownName } from './shown-name.ts';

test('direction marks are made visible, and no other character changes', () => {
  expect(shownName('safe\u202egpj.exe\u2066')).toBe('safe\\u202egpj.exe\\u2066');
  expect(shownName('a\u200eb\u200fc\u061cd')).toBe('a\\u200eb\\u200fc\\u061cd');
  expect(shownName('שלום 👩‍👩‍👧 é')).toBe('שלום 👩‍👩‍👧 é');
  expect([shownIfText('\u202ax'), shownIfText(3), shownIfText(null)]).toEqual(['\\u202ax', 3, null]);
});
