import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

import { expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');
/**
 * Vitest's own waits end after a second, which a busy machine may exceed anywhere; `expect.poll` has the
 * configured time.
 */
const WAIT = /\bvi\.(?:waitFor|waitUntil)\(/g;

/**
 * True if a call has more than one argument, by the commas between its brackets.
 * @param text after the opening bracket
 */
function hasOptions(text: string): boolean {
  const inner = text.replaceAll(
    /'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|\/(?:\\.|[^/\\\n])+\/[a-z]*(?=[,).])/g,
    '0',
  );
  let depth = 0;
  for (let index = 0; index < inner.length; index++) {
    const character = inner[index]!;
    if ('([{'.includes(character)) depth++;
    if (')]}'.includes(character) && depth-- === 0) return false;
    if (character === ',' && depth === 0 && !/^,\s*\)/.test(inner.slice(index))) return true;
  }
  throw new Error('a call does not end');
}

test('every wait of a test has a time limit', () => {
  const files = globSync('{packages,tests}/**/*.ts', { cwd: ROOT, exclude: ['**/node_modules/**', '**/dist/**'] });
  expect(files.length).toBeGreaterThan(500);
  let numWaits = 0;
  const hasty = files.flatMap((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8');
    const calls = [...text.matchAll(WAIT)];
    numWaits += calls.length;
    return calls
      .filter(({ 0: call, index }) => !hasOptions(text.slice(index + call.length)))
      .map(({ index }) => `${file}:${text.slice(0, index).split('\n').length}`);
  });
  expect(hasty).toEqual([]);
  expect(numWaits).toBeGreaterThan(30);
});
