import { describe, expect, test } from 'vitest';

import { briefly, namesFrom, naming, quoting, renameFields, renderFieldText } from './field-text.ts';

const text = naming`${{ field: 'minTokens' }} must be at most ${{ field: 'maxTokens' }} (${5}), got ${'minTokens'}`;

describe('a text about fields', () => {
  test('uses the names of its author by default', () => {
    expect(renderFieldText(text)).toBe('minTokens must be at most maxTokens (5), got minTokens');
  });

  test('uses the names of its reader, and keeps words that look like names', () => {
    const names = namesFrom({ minTokens: 'min_tokens', maxTokens: 'limits.max' });
    const expected = 'min_tokens must be at most limits.max (5), got minTokens';
    expect(renderFieldText(text, names)).toBe(expected);
    expect(renderFieldText(renameFields(text, names))).toBe(expected);
  });

  test('shortens a long value to its start, in whole characters', () => {
    expect(briefly('x'.repeat(1000))).toBe('x'.repeat(1000));
    expect(briefly(`${'x'.repeat(999)}🎉`)).toBe(`${'x'.repeat(999)}…`);
    const [known, long] = ['a name', 'x'.repeat(1_000_000)];
    expect(renderFieldText(quoting`${{ field: 'n' }} is ${known}, got \`${long}\`: send another`)).toBe(
      `\`n\` is a name, got \`${'x'.repeat(1000)}…\`: send another`,
    );
  });

  test('quotes names, not words', () => {
    const quoted = quoting`${{ field: 'n' }} must be 1, got ${2}`;
    expect(renderFieldText(quoted)).toBe('`n` must be 1, got 2');
    expect(renderFieldText(quoted, namesFrom({ n: 'sampling_params.n' }))).toBe('`sampling_params.n` must be 1, got 2');
  });
});

describe('names from a table', () => {
  test.each([
    ['stop', 'stop_sequences'],
    ['stop.0', 'stop_sequences.0'],
    ['stop.deep.name', 'name'],
    ['stop.deep.other', 'stop_sequences.deep.other'],
    ['stops', 'stops'],
    ['messages.0.stop', 'messages.0.stop'],
    ['toString', 'toString'],
    ['__proto__.x', '__proto__.x'],
  ])('%s → %s', (field, name) => {
    expect(namesFrom({ stop: 'stop_sequences', 'stop.deep.name': 'name' })(field)).toBe(name);
  });
});
