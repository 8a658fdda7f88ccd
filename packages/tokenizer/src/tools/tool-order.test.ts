import { expect, test } from 'vitest';
import { inToolOrder } from './tool-order.ts';

const text = (tool: unknown) => JSON.stringify(inToolOrder(tool));

test('a tool reads the same for any order of its keys', () => {
  const parameters = { type: 'object', properties: { b: {}, a: {} } };
  const expected = JSON.stringify({
    type: 'function',
    function: { name: 'f', description: 'd', parameters, strict: true },
    note: 1,
  });
  expect(text({ function: { strict: true, parameters, description: 'd', name: 'f' }, note: 1, type: 'function' })).toBe(
    expected,
  );
  expect(text(JSON.parse(expected))).toBe(expected);
});

test('nothing is added, and invalid tools stay unchanged', () => {
  expect(text({ function: { name: 'f' } })).toBe('{"function":{"name":"f"}}');
  expect(text({ name: 'f', type: 'function' })).toBe('{"type":"function","name":"f"}');
  for (const tool of ['f', null, 3, ['f']]) expect(inToolOrder(tool)).toBe(tool);
});
