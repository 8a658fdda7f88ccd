import { expect, test } from 'vitest';

import { PROSE_COLUMNS, wrapProse } from '../../scripts/lib/wrap-prose.mjs';

const words = (count: number): string => Array.from({ length: count }, (_, i) => `word${i}`).join(' ');
const widthOf = (text: string): number => Math.max(...text.split('\n').map((line) => line.length));

test('wraps a paragraph from its first wide line, and leaves fitting lines unchanged', () => {
  const wrapped = wrapProse(`short\n${words(60)}\ntail\n\nnext`);
  expect(widthOf(wrapped)).toBeLessThanOrEqual(PROSE_COLUMNS);
  expect(wrapped.split('\n')[0]).toBe('short');
  expect(wrapped).toMatch(/ tail\n\nnext$/);
  expect(wrapProse(wrapped)).toBe(wrapped);
});

test.each(['- ', '  - ', '12. '])('%j: an item continues below its text', (opening) => {
  const [first, ...rest] = wrapProse(`${opening}${words(60)}\n${opening}b`).split('\n');
  expect(first).toMatch(new RegExp(`^${opening}word0 word1 `));
  expect(rest.at(-1)).toBe(`${opening}b`);
  for (const line of rest.slice(0, -1)) expect(line).toMatch(new RegExp(`^ {${opening.length}}word`));
});

test('no line starts with a word that would change its meaning', () => {
  for (const word of ['-', '3.', '#', '>', '|']) {
    const wrapped = wrapProse(`${'a'.repeat(PROSE_COLUMNS - 1)} ${word} b`);
    expect(wrapped).toBe(`${'a'.repeat(PROSE_COLUMNS - 1)} ${word}\nb`);
  }
});

test('tables, code, headings and code spans stay whole', () => {
  const wide = words(60);
  for (const text of [`| ${wide} |`, `# ${wide}`, `\`\`\`\n${wide}\n\`\`\``, `\`${wide}\``])
    expect(wrapProse(text)).toBe(text);
});
