import fc from 'fast-check';
import { expect, test } from 'vitest';
import { rewriteJsonText } from './json-reader.ts';
import { pythonJson } from './python-json.ts';
import { MalformedReply } from './reply-text.ts';

// Written by Python 3.11: json.dumps(json.loads(text), ensure_ascii=False)
test.each([
  ['{"a":1,"b":[true,false,null],"c":{}}', '{"a": 1, "b": [true, false, null], "c": {}}'],
  ['[ ]', '[]'],
  ['{ "é" : "\\u00e9\\ud83d\\ude00" }', '{"é": "é😀"}'],
  [String.raw`"\/\b\f\n\r\t\u0000\u001F\u007f\\\""`, String.raw`"/\b\f\n\r\t\u0000\u001f${'\u007f'}\\\""`],
  ['[[[1]], {"a": [{}]}]', '[[[1]], {"a": [{}]}]'],
  ['"\u2028\u00a0"', '"\u2028\u00a0"'],
])('%s', (source, expected) => {
  expect(rewriteJsonText(source)).toBe(expected);
  expect(pythonJson(JSON.parse(source))).toBe(expected);
});

test('any value is the same value afterwards, in the spacing of pythonJson', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(undefined, 1, 4, '\t'), (value, indent) => {
      expect(rewriteJsonText(JSON.stringify(value, null, indent))).toBe(pythonJson(value));
      expect(JSON.parse(pythonJson(value))).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
});

test('invalid JSON is refused, as JSON.parse refuses it', () => {
  const pieces = fc.constantFrom(
    ...'{}[],:"\\'.split(''),
    '1',
    '-',
    '.',
    'e',
    'true',
    'nul',
    ' ',
    '\n',
    '"a"',
    '\\u00',
    '\u0001',
  );
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 10 }), (list) => {
      const source = list.join('');
      const isJson = isAccepted(() => JSON.parse(source));
      // A value followed by something else: the rest is left unread.
      const isPrefix = Array.from({ length: source.length }, (_, end) => source.slice(0, end)).some((start) =>
        isAccepted(() => JSON.parse(start)),
      );
      const isRead = isAccepted(() => rewriteJsonText(source));
      expect([isJson, isJson || isPrefix]).toContain(isRead);
    }),
    { numRuns: 5000 },
  );
});

test('deep nesting costs no stack', () => {
  const source = '['.repeat(100_000) + ']'.repeat(100_000);
  expect(rewriteJsonText(source)).toBe(source);
  expect(() => rewriteJsonText('['.repeat(100_000))).toThrow(MalformedReply);
});

function isAccepted(task: () => unknown): boolean {
  try {
    task();
    return true;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof MalformedReply) return false;
    throw error;
  }
}
