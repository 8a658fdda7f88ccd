import fc from 'fast-check';
import { expect, test } from 'vitest';
import { needsPythonValues, parsePythonJson, parsePythonValues, pythonFloat } from './python-values.ts';
import { pythonJson } from '../reply/python-json.ts';

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (value instanceof Number) return value.valueOf();
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  const entries = value instanceof Map ? [...(value as Map<string, unknown>)] : Object.entries(value);
  return Object.fromEntries(entries.map(([key, member]) => [key, plain(member)]));
}

test('any JSON is the same data as JSON.parse reads, but for its own types', () => {
  const json = fc.oneof(
    fc.json({ stringUnit: 'binary' }),
    fc.json().map((text) => `{"10": ${text}, "a\\"1\\":": [${text}, 12345678901234567890]}`),
  );
  fc.assert(
    fc.property(json, (text) => {
      const expected: unknown = JSON.parse(text, (_key, value: unknown) => (Object.is(value, -0) ? 0 : value));
      const read = JSON.parse(JSON.stringify(plain(parsePythonValues(text)))) as unknown;
      expect(read).toEqual(expected);
      if (!needsPythonValues(text)) expect(parsePythonValues(text)).toEqual(expected);
    }),
    { numRuns: 500 },
  );
});

// As json.dumps of Python 3.12 writes them.
test.each([
  [1, '1.0'],
  [-0, '-0.0'],
  [100_000, '100000.0'],
  [1e15, '1000000000000000.0'],
  [1e16, '1e+16'],
  [1.2345678901234567e19, '1.2345678901234567e+19'],
  [1e22, '1e+22'],
  [1e300, '1e+300'],
  [0.1, '0.1'],
  [0.0001, '0.0001'],
  [0.00001, '1e-05'],
  [1.5e-7, '1.5e-07'],
  [5e-324, '5e-324'],
])('the float %d is %s', (value, text) => {
  expect(pythonFloat(value)).toBe(text);
});

test.each([['-'], ['']])('an integer %sof more digits than Python reads is no JSON', (sign) => {
  const digits = '1'.repeat(4300);
  for (const parse of [parsePythonValues, parsePythonJson]) {
    expect(parse(sign + digits)).toBe(BigInt(sign + digits));
    expect(() => parse(`${sign}1${digits}`)).toThrow('an integer of 4301 digits, of at most 4300');
  }
});

// As json.dumps(json.loads(…)) of Python 3.12 writes them.
test.each([
  ['[NaN,Infinity,-Infinity]', '[NaN, Infinity, -Infinity]'],
  ['{"NaN":"Infinity","a":NaN}', '{"NaN": "Infinity", "a": NaN}'],
  ['[1e400,-1e400,1e999,1E+999]', '[Infinity, -Infinity, Infinity, Infinity]'],
  [String.raw`["\"NaN\\",NaN]`, String.raw`["\"NaN\\", NaN]`],
  [`[${'9'.repeat(300)}e10]`, '[Infinity]'],
])('%s is %s', (text, written) => {
  expect(needsPythonValues(text)).toBe(true);
  for (const parse of [parsePythonValues, parsePythonJson]) expect(pythonJson(parse(text))).toBe(written);
});

test.each(['-NaN', '+Infinity', '1.Infinity', '1NaN', 'NaN1', '1e-Infinity', 'nan', '{NaN:1}', '[NaN', 'NaN NaN'])(
  '%s is no JSON for Python, either',
  (text) => {
    for (const parse of [parsePythonValues, parsePythonJson]) expect(() => parse(text)).toThrow(SyntaxError);
  },
);
