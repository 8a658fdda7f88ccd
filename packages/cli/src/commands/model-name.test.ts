import { expect, test } from 'vitest';

import { readModelName } from './model-name.ts';

test.each([
  ['facts', { entity: null, project: 'sft', name: 'facts' }],
  ['demo/facts', { entity: null, project: 'demo', name: 'facts' }],
  ['local/demo/facts', { entity: 'local', project: 'demo', name: 'facts' }],
])('%s', (text, name) => {
  expect(readModelName(text, '--model', 'sft')).toEqual(name);
});

test.each(['', '/', 'a/', '/a', 'a//b', 'a/b/c/d', 'a:step3', 'local/p/m:step3'])('%j is no name', (text) => {
  expect(() => readModelName(text, '--model', 'sft')).toThrow(
    `--model takes NAME, PROJECT/NAME or ENTITY/PROJECT/NAME, got ${JSON.stringify(text)}`,
  );
});
