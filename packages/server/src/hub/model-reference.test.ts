import { expect, test } from 'vitest';

import { readModelReference } from './model-reference.ts';

test.each([
  ['Qwen/Qwen3-0.6B', { repository: 'Qwen/Qwen3-0.6B', revision: 'main', file: { kind: 'folder' } }],
  ['a/b@v1.0', { repository: 'a/b', revision: 'v1.0', file: { kind: 'folder' } }],
  ['a/b@refs/pr/1', { revision: 'refs/pr/1' }],
  ['a/b:Q8_0', { repository: 'a/b', file: { kind: 'quantisation', name: 'Q8_0' } }],
  ['a/b:Q8_0@main', { revision: 'main', file: { kind: 'quantisation', name: 'Q8_0' } }],
  ['a/b/x-Q4_0.gguf', { repository: 'a/b', file: { kind: 'path', path: 'x-Q4_0.gguf' } }],
  ['a/b/sub/x.gguf@v2', { revision: 'v2', file: { kind: 'path', path: 'sub/x.gguf' } }],
])('%s is a model of a hub', (text, parts) => {
  expect(readModelReference(text)).toMatchObject({ text, ...parts });
});

test.each([
  'model.gguf', 'models/model.gguf', './a/b', '/a/b', '~/a/b', 'a', 'a/b/c', 'a/b:', 'a/b@', 'a/..', '../b', 'a/b@../c',
  'a/b@a//b', 'a/b/../x.gguf', 'a/b/.x.gguf', 'a--b/c', 'a/b.git', 'a/b c', 'a/b\n', 'a/b?x', 'https://a/b',
])('%j is none', (text) => {
  expect(readModelReference(text)).toBeNull();
}); // prettier-ignore
