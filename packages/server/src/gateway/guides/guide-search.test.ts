import { expect, test } from 'vitest';

import { GuideSearch } from './guide-search.ts';

const DOCUMENTS = [
  {
    title: '12. Prompts of episodes',
    href: '/guides/decisions/12',
    isInside: true,
    body: 'A few-shot prompt, and why.',
  },
  {
    title: 'Multi-turn',
    href: '/guides/multi-turn',
    isInside: false,
    body: 'Episodes.\n\n## Few-shot prompts\n\nExamples in a prompt come first.\n\n## Tools\n\nSet `learning_rate`.',
  },
  { title: 'Keys', href: '/guides/keys', isInside: false, body: 'Keys expire. <b>Revoke</b> one.' },
];
const search = await GuideSearch.over(DOCUMENTS);
const hrefs = (query: string) => search.find(query).map(({ href }) => href);

test('documents are found by words in any order and form, guides before decisions', () => {
  expect(hrefs('prompt shot few')).toEqual(['/guides/multi-turn#few-shot-prompts', '/guides/decisions/12']);
  expect(hrefs('FEW-SHOT prompting')).toEqual(['/guides/multi-turn#few-shot-prompts', '/guides/decisions/12']);
  expect(hrefs('how do I revoke a key')).toEqual(['/guides/keys']);
  expect(hrefs('learning_rate')).toEqual(['/guides/multi-turn#tools']);
  expect(hrefs('rate')).toEqual(['/guides/multi-turn#tools']);
});

test('a start of a word finds it, and the words may be in several parts', () => {
  expect(hrefs('exampl epis')).toEqual(['/guides/multi-turn#few-shot-prompts', '/guides/decisions/12']);
  expect(search.find('exampl epis')[0]!.missing).toEqual([]);
});

test('documents that lack a word are found only if none has all', () => {
  const missing = (query: string) => Object.fromEntries(search.find(query).map((hit) => [hit.title, hit.missing]));
  expect(missing('keys prompt')).toEqual({
    Keys: ['prompt'],
    'Multi-turn': ['keys'],
    '12. Prompts of episodes': ['keys'],
  });
  expect(hrefs('keys nothing elsewhere')).toEqual([]);
  expect(hrefs('keys revoke')).toEqual(['/guides/keys']);
});

test('a hit has its place and the text around the first word', () => {
  expect(search.find('revoke')[0]).toEqual({
    title: 'Keys',
    heading: null,
    href: '/guides/keys',
    excerpt: 'Keys expire. <b>Revoke</b> one.',
    missing: [],
    isInside: false,
  });
});

test.each(['', '   ', '?!', 'zzzz', '__proto__ constructor'])('%j finds nothing', (query) =>
  expect(search.find(query)).toEqual([]),
);
