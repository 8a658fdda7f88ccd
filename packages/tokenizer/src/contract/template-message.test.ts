import { describe, expect, test } from 'vitest';
import { pythonJson } from '../reply/python-json.ts';
import { prepareMessage } from './template-message.ts';

describe('content', () => {
  test.each([
    [null, ''],
    [undefined, ''],
    ['x', 'x'],
    [
      [
        { type: 'text', text: 'a' },
        'b',
        { text: 'c' },
        { type: 'refusal', refusal: 'd' },
        { type: 'text', text: null },
      ],
      'a\nb\nc\nd',
    ],
    [[], ''],
  ])('%j becomes %j', (content, text) => {
    expect(prepareMessage({ role: 'user', ...(content === undefined ? {} : { content }) }, 'string').content).toBe(
      text,
    );
  });

  test('a template that iterates gets parts, except for the answer of a tool', () => {
    expect(prepareMessage({ role: 'user', content: 'x' }, 'parts').content).toEqual([{ type: 'text', text: 'x' }]);
    expect(prepareMessage({ role: 'assistant', content: null }, 'parts').content).toEqual([]);
    expect(
      prepareMessage(
        {
          role: 'tool',
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
        'parts',
      ).content,
    ).toBe('a\nb');
  });

  test.each([[{ type: 'image_url', image_url: { url: 'x' } }], [{ image_url: 'x' }], [{ type: 'text', text: 5 }]])(
    '%j is refused',
    (part) => {
      expect(() => prepareMessage({ role: 'user', content: [part] }, 'string')).toThrow(
        expect.objectContaining({ code: 'tokenizer.unsupported_content' }),
      );
    },
  );

  test('a refused type gives a short error', () => {
    const refused = () => prepareMessage({ role: 'user', content: [{ type: 'x'.repeat(1e6) }] }, 'string');
    expect(refused).toThrow(/must be one of .*; got "x{100}"$/);
  });
});

describe('assistant messages', () => {
  test.each([
    ['{"a":1}', { a: 1 }],
    ['', {}],
    [' \n', {}],
    [null, {}],
    [undefined, {}],
    ['[1]', '[1]'],
    ['{broken', '{broken'],
    ['5', '5'],
    ['null', 'null'],
    ['"{\\"a\\":1}"', { a: 1 }],
    ['"{\\"a\\""', '"{\\"a\\""'],
    [[1], [1]],
    [{ a: 1 }, { a: 1 }],
  ])('arguments %j reach the template as %j', (given, parsed) => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: given } };
    const { tool_calls } = prepareMessage({ role: 'assistant', tool_calls: [call] }, 'string');
    expect(tool_calls).toEqual([{ ...call, function: { name: 'f', arguments: parsed } }]);
  });

  test('arguments keep the same as in Python: digits, floats, and the order of keys that look like integers', () => {
    const given =
      '{"id": 1234567890123456789, "b": 1.0, "10": -0, "\\"2\\": 1.5": [1.5, -0.0, 12, "3.0", {"b": {"__proto__": 1e5}, "1": 2}]}';
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: given } };
    const { tool_calls } = prepareMessage({ role: 'assistant', tool_calls: [call] }, 'string');
    const boxed = (value: number): unknown => Object(value);
    const inner = Object.fromEntries([['__proto__', boxed(100_000)]]);
    const last = new Map<string, unknown>([
      ['b', inner],
      ['1', 2],
    ]);
    const parsed = new Map<string, unknown>([
      ['id', 1234567890123456789n],
      ['b', boxed(1)],
      ['10', 0],
      ['"2": 1.5', [1.5, boxed(-0), 12, '3.0', last]],
    ]);
    expect(tool_calls).toStrictEqual([{ ...call, function: { name: 'f', arguments: parsed } }]);
  });

  test.each([
    ['{"p": NaN}', '{"p": NaN}'],
    ['{"p": [-Infinity, {"q": Infinity}], "NaN": "NaN"}', '{"p": [-Infinity, {"q": Infinity}], "NaN": "NaN"}'],
    ['{"p": 1e400}', '{"p": Infinity}'],
    [`{"p": ${'7'.repeat(400)}}`, `{"p": ${'7'.repeat(400)}}`],
    [JSON.stringify('{"p": NaN}'), '{"p": NaN}'],
    ['NaN', '"NaN"'],
    ['{"p": -NaN}', String.raw`"{\"p\": -NaN}"`],
  ])('numbers that only Python reads reach the template as it writes them: %s', (given, written) => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: given } };
    for (const keepsWriting of [true, false]) {
      const { tool_calls: calls } = prepareMessage({ role: 'assistant', tool_calls: [call] }, 'string', {
        keepsWriting,
      });
      const [prepared] = calls as [{ function: { arguments: unknown } }];
      expect(pythonJson(prepared.function.arguments)).toBe(written);
    }
  });

  test('arguments nested too deep are refused before they are read by their digits', () => {
    const deep = `{"a":${'['.repeat(100_000)}1.0${']'.repeat(100_000)}}`;
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: deep } };
    expect(() => prepareMessage({ role: 'assistant', tool_calls: [call] }, 'string')).toThrow(/levels deep/);
  });

  test('arguments with default writing are plain data', () => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"b": 1.0, "1": 2}' } };
    const { tool_calls } = prepareMessage({ role: 'assistant', tool_calls: [call] }, 'string', { keepsWriting: false });
    expect(tool_calls).toStrictEqual([{ ...call, function: { name: 'f', arguments: { '1': 2, b: 1 } } }]);
  });

  test('an empty list of calls is none', () => {
    expect(prepareMessage({ role: 'assistant', content: 'x', tool_calls: [] }, 'string')).toEqual({
      role: 'assistant',
      content: 'x',
    });
  });

  test.each([{ reasoning: 'r' }, { reasoning_content: 'r' }])('%j is given under both names', (given) => {
    expect(prepareMessage({ role: 'assistant', ...given }, 'string')).toMatchObject({
      reasoning: 'r',
      reasoning_content: 'r',
    });
  });

  test('names, call ids and nothing else pass', () => {
    expect(prepareMessage({ role: 'tool', content: '', tool_call_id: 'c', name: 'f', extra: 1 }, 'string')).toEqual({
      role: 'tool',
      content: '',
      tool_call_id: 'c',
      name: 'f',
    });
    expect(prepareMessage({ role: 'user', content: '', reasoning: 'r', name: 1 }, 'string')).toEqual({
      role: 'user',
      content: '',
    });
  });
});

test('the copy of arguments that SDKs add to a call reaches no template', () => {
  const call = (more: object) => ({
    id: 'c',
    type: 'function',
    function: { name: 'f', arguments: '{"x": 1}', ...more },
  });
  const prepared = (more: object) =>
    prepareMessage({ role: 'assistant', content: null, tool_calls: [call(more)] }, 'string');
  expect(prepared({ parsed_arguments: { x: 1 } })).toEqual(prepared({}));
});
