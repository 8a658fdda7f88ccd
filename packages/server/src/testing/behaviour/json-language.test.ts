/**
 * Reference §8.6: the JSON language of the default engine, statement by statement, and intended differences
 * of this service.
 */
import type { ChatCompletion } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import { noticeRefusal } from '../guest-refusal.ts';
import { ScriptedService } from '../scripted-service.ts';

let service: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open();
});
afterAll(() => service.close());

const A = { a: { type: 'integer' } };

/**
 * Schema, texts that both allow, texts that both refuse, and differences: `+` only we allow, `-` only vLLM
 * allows.
 */
// prettier-ignore
const STATEMENTS: readonly [about: string, schema: unknown, both: string[], neither: string[], differs: Record<string, '+' | '-'>][] = [
  ['string', { type: 'string' }, ['"a"', ...['"', '\\', 'b', 'f', 'n', 'r', 't', 'u00e9'].map((escaped) => `"\\${escaped}"`)], ['"\n"', String.raw`"\x"`], { [String.raw`"\/"`]: '-' }],
  ['string with a length', { type: 'string', maxLength: 2 }, ['"ab"'], ['"abc"'], { [String.raw`"\n"`]: '+' }],
  ['integer', { type: 'integer' }, ['0', '-1', '10'], ['01', '1.0', '1e2'], { '-0': '+' }],
  ['number', { type: 'number' }, ['0', '-0', '1.5', '1e5', '-2.5E-3'], ['.5', '1.', '+1'], {}],
  ['number with bounds', { type: 'number', minimum: 0, maximum: 2 }, ['0.5', '2'], ['3', '-1'], {}],
  ['const and enum in compact form', { enum: [{ x: [1, 2] }, 'b'] }, ['{"x":[1,2]}', '"b"'], ['"c"'], {}],
  ['any object', { type: 'object' }, ['{}', '{"z":1}'], ['[]'], {}],
  ['no properties declared', { type: 'object', properties: {} }, ['{}'], ['{"z":1}'], {}],
  ['declared order', { type: 'object', properties: { a: {}, b: {} } }, ['{"a":1,"b":2}', '{"b":2}'], ['{"b":2,"a":1}'], {}],
  ['additional properties after the declared ones', { type: 'object', properties: A, additionalProperties: { type: 'string' } }, ['{"a":1,"z":"x"}'], ['{"z":1}', '{"a":1,"a":"x"}'], {}],
  ['maxProperties', { type: 'object', additionalProperties: { type: 'integer' }, maxProperties: 1 }, ['{}', '{"x":1}'], ['{"x":1,"y":2}'], {}],
  ['any array', { type: 'array' }, ['[]', '[1,"a"]'], ['{}'], {}],
  ['prefixItems alone', { type: 'array', prefixItems: [{ type: 'integer' }, { type: 'null' }] }, ['[]', '[1]', '[1,null]'], ['["a"]'], { '[1,null,2]': '+' }],
  ['types and alternatives', { anyOf: [{ type: ['integer', 'null'] }, { const: 'x' }] }, ['1', 'null', '"x"'], ['"y"', 'true'], {}],
  ['references, recursive ones too', { $ref: '#/$defs/n', $defs: { n: { type: 'object', properties: { n: { $ref: '#/$defs/n' } } } } }, ['{}', '{"n":{"n":{}}}'], ['{"n":1}'], {}],
  ['properties without a type', { properties: A }, ['{"a":1}'], ['{"a":"x"}'], { '5': '+' }],
  ['numeric bounds without a type', { minimum: 5 }, ['5', '"a"'], [], { '4': '-' }],
  ['a pattern', { type: 'string', pattern: 'foo' }, ['"foo"'], ['"fo"'], { '"xfoox"': '+' }],
];

test.each(STATEMENTS)('%s', async (_about, schema, both, neither, differs) => {
  const allows = async (text: string) => {
    service.setReply(text);
    const fields = { temperature: 0, max_tokens: Buffer.byteLength(text) + 2, structured_outputs: { json: schema } };
    return (await service.content(fields)) === text;
  };
  const expected = new Map([
    ...both.map((text) => [text, true] as const),
    ...neither.map((text) => [text, false] as const),
    ...Object.entries(differs).map(([text, who]) => [text, who === '+'] as const),
  ]);
  for (const [text, isAllowed] of expected) expect([text, await allows(text)]).toEqual([text, isAllowed]);
});

test('an undeclared required key is refused without additional properties: vLLM drops it', async () => {
  const json = { type: 'object', properties: A, required: ['z'] };
  expect(await service.refusal({ structured_outputs: { json } })).toBe('400 structured_outputs');
  expect(await service.message({ structured_outputs: { json } })).toContain("required property 'z'");
  service.setReply('{"a":1,"z":2}');
  const open = { json, disable_additional_properties: false };
  expect(await service.content({ temperature: 0, structured_outputs: open })).toBe('{"a":1,"z":2}');
});

describe('names that look like integers keep their places', () => {
  const schema = String.raw`{"type":"object","required":["why","10","2"],"properties":{"why":{},"10":{"properties":{"b":{},"1":{}}},"2":{"const":{"b":1,"\u0030":2}}}}`;
  const text = '{"why":1,"10":{"b":1,"1":2},"2":{"b":1,"0":2}}';
  const outputs = {
    'structured_outputs.json': `"structured_outputs":{"json":${schema}}`,
    'structured_outputs.json as text': `"structured_outputs":{"json":${JSON.stringify(schema)}}`,
    'structured_outputs.structural_tag': `"structured_outputs":{"structural_tag":${JSON.stringify(`{"format":{"type":"json_schema","json_schema":${schema}}}`)}}`,
    'response_format of a structural tag': `"response_format":{"type":"structural_tag","format":{"type":"sequence","elements":[{"type":"json_schema","json_schema":${schema}}]}}`,
    response_format: `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":${schema}}}`,
  };
  const sorted = ['{"2":{"b":1,"0":2},"10":{"b":1,"1":2},"why":1}', text.replace('"b":1,"1":2', '"1":2,"b":1')];
  const replyTo = async (said: string, member: string) => {
    service.setReply(said);
    const fields = `"messages":[{"role":"user","content":"x"}],"temperature":0,"max_tokens":${said.length + 2}`;
    const body = `{"model":"tiny/base",${fields},${member}}`;
    const response = await service.server.request('POST', '/v1/chat/completions', body);
    noticeRefusal(JSON.parse(body), response);
    return response.json<ChatCompletion>().choices[0]!;
  };

  test.each(Object.entries(outputs))('%s: in declared order', async (_name, member) => {
    expect((await replyTo(text, member)).message.content).toBe(text);
    for (const other of sorted) expect((await replyTo(other, member)).message.content).not.toBe(other);
  });

  test('structures of a structural tag, in the older form', async () => {
    const tag = `{"type":"structural_tag","structures":[{"begin":"<f>","schema":${schema},"end":"</f>"}],"triggers":["<f>"]}`;
    const member = `"response_format":${tag}`;
    expect((await replyTo(`<f>${text}</f>`, member)).message.content).toBe(`<f>${text}</f>`);
    for (const other of sorted)
      expect((await replyTo(`<f>${other}</f>`, member)).message.content).not.toBe(`<f>${other}</f>`);
  });

  const tools = (strict: boolean) =>
    `"tools":[{"type":"function","function":{"name":"f","strict":${strict},"parameters":${schema}}}]`;
  const called = (args: string) => `[{"name":"f","parameters":${args}}]`;
  test.each([
    ['required', '"tool_choice":"required"', called],
    ['required of tools that refer to definitions', '"tool_choice":"required","parallel_tool_calls":false', called],
    ['named', '"tool_choice":{"type":"function","function":{"name":"f"}}', (args: string) => args],
  ])('a forced call, %s: in declared order', async (_name, choice, say) => {
    for (const strict of [true, false]) {
      const member = `${choice},${tools(strict)}`;
      const args = async (said: string) =>
        (await replyTo(say(said), member)).message.tool_calls?.[0]?.function.arguments.replaceAll(' ', '');
      expect(await args(text)).toBe(text);
      for (const other of sorted) expect(await args(other)).not.toBe(other);
    }
  });

  test('a call that may replace a constrained answer: in declared order', async () => {
    const member = `"tool_choice":"auto",${tools(true)},"response_format":{"type":"json_object"}`;
    const call = (args: string) => `<tool_call>\n{"name": "f", "arguments": ${args}}\n</tool_call>`;
    const args = async (said: string) =>
      (await replyTo(call(said), member)).message.tool_calls?.[0]?.function.arguments.replaceAll(' ', '');
    expect(await args(text)).toBe(text);
    for (const other of sorted) expect(await args(other)).not.toBe(other);
  });
});
