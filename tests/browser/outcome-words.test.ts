/** Every outcome of a rollout has a plain description. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

test('every reason for leaving out a rollout has a text in the dashboard', () => {
  const [, union = ''] =
    /export type DropReason =([^;]*);/.exec(read('packages/trainer/src/rollouts/sequence-report.ts')) ?? [];
  const reasons = Array.from(union.matchAll(/'([a-z_]+)'/g), ([, reason]) => reason!);
  expect(reasons.length).toBeGreaterThan(5);
  const [, words = ''] =
    /const WORDS:[^{]*\{(.*?)\n\};/s.exec(read('packages/dashboard/src/rollouts/outcome-words.ts')) ?? [];
  const described = Array.from(words.matchAll(/^ {2}([a-z_]+): \{/gm), ([, reason]) => reason!);
  expect(new Set(described)).toEqual(new Set([...reasons, 'trained', 'regularized']));
});
