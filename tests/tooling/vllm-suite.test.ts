import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

import { expect, test } from 'vitest';

import { VLLM_VERSION } from '../../lab/vllm-suite/sources.mjs';
import { renderSuitePage } from '../../lab/vllm-suite/page.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(resolve(ROOT, path), 'utf8');

test("the page of vLLM's tests is written from the list of failures", () => {
  const files = JSON.parse(read('tests/vllm-suite/files.json'));
  const expected = JSON.parse(read('tests/vllm-suite/expected.json'));
  expect(read('docs/lab/vllm-suite.md')).toBe(renderSuitePage(VLLM_VERSION, files, expected));
});

test('every expected failure has an external cause, a reason, and a file that is run', () => {
  const { run } = JSON.parse(read('tests/vllm-suite/files.json')) as { run: string[] };
  const expected = JSON.parse(read('tests/vllm-suite/expected.json')) as Record<
    string,
    { class: string; reason: string }
  >;
  expect(Object.keys(expected).length).toBeGreaterThan(0);
  for (const [id, known] of Object.entries(expected)) {
    expect(['small model', 'flag of theirs', 'deliberate'], id).toContain(known.class);
    expect(known.reason, id).not.toBe('');
    expect(run, id).toContain(id.replace(/^tests\//, '').split('::')[0]);
  }
});
