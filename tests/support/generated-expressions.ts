import fc from 'fast-check';

const atom = fc.constantFrom(
  'a',
  'b',
  'é',
  '.',
  '\\d',
  '\\w',
  '\\s',
  '\\S',
  '[a-f]',
  '[^a-y\\s]',
  '[\\d_-]',
  '\\.',
  '\\/',
  '\\u{1F600}',
  '\\p{Lu}',
  '\\x41',
  '\\n',
  '"',
);
const quantifier = fc.constantFrom('', '', '', '*', '+', '?', '{2}', '{1,3}', '{2,}', '*?', '+?');
/**
 * Regular expressions with the same meaning here and in JavaScript's `RegExp` with the `u` flag: groups two
 * levels deep, lazy quantifiers, classes.
 */
export const { expression: expressions } = fc.letrec<{ expression: string; term: string }>((tie) => ({
  term: fc.oneof(
    { maxDepth: 2, depthSize: 'xsmall' },
    fc.tuple(atom, quantifier).map((parts) => parts.join('')),
    fc
      .tuple(fc.constantFrom('(', '(?:', '(?<n>'), tie('expression'), quantifier)
      .map(([open, body, repeat]) => `${open === '(?<n>' ? '(?:' : open}${body})${repeat}`),
  ),
  expression: fc
    .array(
      fc.array(tie('term'), { minLength: 1, maxLength: 3 }).map((terms) => terms.join('')),
      { minLength: 1, maxLength: 2 },
    )
    .map((alternatives) => alternatives.join('|')),
}));
