import { describe, expect, test } from 'vitest';

import { parseJsonBody } from '../../gateway/bodies/json-body.ts';
import { keepSourceTexts, sourceTextOf } from './source-texts.ts';

function variablesText(variables: string, before = ''): string | null {
  const text = `{${before}"chat_template_kwargs":${variables}}`;
  const body = parseJsonBody(text) as { chat_template_kwargs: unknown };
  keepSourceTexts(body, text);
  return sourceTextOf(body.chat_template_kwargs);
}

describe('a value that Python reads otherwise is kept as it was written', () => {
  test.each([
    '{"a":1.0}',
    '{"a":[{"b":-0.0}]}',
    '{"a":1e3}',
    '{"a":0.00001}',
    '{"a":12345678901234567890}',
    '{"b":1,"2":1}',
    '{"b":1,"\\u0032":1}',
    '{ "b" : { "a" : "x\\\\" , "c" : 2.00 } }',
    '{"__proto__":{"type":"integer"}}',
    '{"a":{"\\u005f_\\u0070roto__" : 1}}',
    '{"constructor":{"prototype":1}}',
  ])('%s', (text) => {
    expect(variablesText(text)).toBe(text);
    expect(variablesText(text, '"x":"\\"}\\\\","chat_template_kwargs":{"a":3.0},"y":[[{}],"]"], ')).toBe(text);
  });

  test.each(['{}', '{"a":1}', '{"a":0.5,"b":"1.0"}', '{"a":true}', '{"a":1.25}', '{"a":900719925474099}'])(
    'not %s',
    (text) => {
      expect(variablesText(text)).toBeNull();
    },
  );

  test('the last of two members of one name counts', () => {
    expect(variablesText('{"a":1}', '"chat_template_kwargs":{"a":1.0},')).toBeNull();
    expect(variablesText('{"a":2.0}', '"chat_template_kwargs":{"a":1.0},')).toBe('{"a":2.0}');
  });
});

test('members of namespaces of tools are kept, too', () => {
  const schema = '{"properties":{"__proto__":{}},"maximum":1.0}';
  const text = `{"tools":[{"type":"namespace","tools":[{"type":"function","parameters":${schema}}]}]}`;
  const body = JSON.parse(text) as { tools: { tools: { parameters: unknown }[] }[] };
  keepSourceTexts(body, text);
  expect(sourceTextOf(body.tools[0]!.tools[0]!.parameters)).toBe(schema);
});

test('of lists that come twice, too', () => {
  const tools = (schema: string) => `"tools":[{"parameters":${schema}}]`;
  const text = `{${tools('{"minimum":1.0}')},${tools('{"minimum":1}')}}`;
  const body = JSON.parse(text) as { tools: { parameters: unknown }[] };
  keepSourceTexts(body, text);
  expect(sourceTextOf(body.tools[0]!.parameters)).toBeNull();
});

test('schemas of tools in all their forms, and inputs of blocks', () => {
  const schema = '{"minimum":1.0}';
  const text = `{"tools":[{"function":{"parameters":${schema}}},{"parameters":${schema}},{"input_schema":${schema}},{"other":${schema}},3],
    "messages":[{"content":"1.0"},{"content":[{"input":${schema}},{"input":{"a":1}},"x"]}]}`;
  const body = JSON.parse(text) as { tools: Record<string, never>[]; messages: { content: { input: unknown }[] }[] };
  keepSourceTexts(body, text);
  const [chat, responses, messages, other] = body.tools;
  expect(
    [
      (chat!['function'] as unknown as { parameters: unknown }).parameters,
      responses!['parameters'],
      messages!['input_schema'],
    ].map(sourceTextOf),
  ).toEqual([schema, schema, schema]);
  expect(sourceTextOf(other!['other'])).toBeNull();
  expect(body.messages[1]!.content.map(({ input }) => sourceTextOf(input))).toEqual([schema, null, null]);
});
