/**
 * Reference §8: constrained replies through the whole service. The languages themselves are tested in
 * packages/constraints and tests/constraints.
 */
import type { ChatCompletion } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import { noticeRefusal } from '../guest-refusal.ts';
import { END, ScriptedService } from '../scripted-service.ts';

let service: ScriptedService;
let thinker: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open({ template: 'tools' });
  thinker = await ScriptedService.open({ template: 'thinking' });
});
afterAll(async () => {
  await service.close();
  await thinker.close();
});

const GREEDY = { temperature: 0, max_tokens: 200 };
const SCHEMA = { type: 'object', properties: { a: { type: 'integer' }, b: { type: 'string' } }, required: ['a'] };
const schemaFormat = (schema: unknown, more: object = {}) => ({
  response_format: { type: 'json_schema', json_schema: { name: 'x', schema, ...more } },
});
const outputs = (structured_outputs: object) => ({ structured_outputs });
/**
 * Reply of a model that tries to write `wanted` under a constraint: if that is not allowed, it takes the
 * lowest allowed token.
 */
async function held(wanted: string, fields: Record<string, unknown>): Promise<string> {
  service.setReply(wanted);
  return service.content({ ...GREEDY, ...fields });
}
/** True if the constraint allows the whole text. */
async function allows(text: string, fields: Record<string, unknown>): Promise<boolean> {
  return (await held(text, { max_tokens: text.length + 2, ...fields })) === text;
}

describe('each kind holds the reply', () => {
  // prettier-ignore
  test.each<[string, Record<string, unknown>, yes: string[], no: string[]]>([
    ['json', outputs({ json: SCHEMA }), ['{"a":1}', '{"a":1,"b":"x"}', '{ "a": 1 }'], ['{}', '{"b":"x","a":1}', '{"a":1,"c":2}', 'x']],
    ['json as text', outputs({ json: JSON.stringify(SCHEMA) }), ['{"a":1}'], ['{}']],
    ['json true', outputs({ json: true }), ['1', '[{}]'], ['x']],
    ['json_object', outputs({ json_object: true }), ['{}', '{"z":[1]}'], ['[]', '1']],
    ['regex', outputs({ regex: 'a+b' }), ['aab'], ['ab!', 'xab', 'b']],
    ['choice', outputs({ choice: ['Yes', 'No '] }), ['Yes', 'No '], ['yes', 'No', 'Maybe']],
    ['grammar, GBNF', outputs({ grammar: 'root ::= "x" [0-9]' }), ['x1'], ['x', 'y1']],
    ['grammar, Lark', outputs({ grammar: 'start: "x" /[0-9]/' }), ['x1'], ['x', 'y1']],
    ['structural_tag', outputs({ structural_tag: JSON.stringify({ type: 'structural_tag', format: { type: 'const_string', value: 'hi' } }) }), ['hi'], ['ho']],
    ['response_format text', { response_format: { type: 'text' } }, ['anything'], []],
    ['response_format json_object', { response_format: { type: 'json_object' } }, ['{"z":1}'], ['[]']],
    ['response_format json_schema', schemaFormat(SCHEMA), ['{"a":1}'], ['{}']],
    ['response_format json_schema, not strict', schemaFormat(SCHEMA, { strict: false, description: 'd' }), ['{"a":1}'], ['{}']],
    ['response_format structural_tag', { response_format: { type: 'structural_tag', format: { type: 'regex', pattern: 'h.' } } }, ['hi'], ['x']],
    ['response_format structural_tag with triggers', { response_format: { type: 'structural_tag', triggers: ['<f'], structures: [{ begin: '<f>', schema: { type: 'integer' }, end: '</f>' }] } }, ['a<f>1</f>b'], ['<f>x</f>']],
  ])('%s', async (_name, fields, yes, no) => {
    for (const text of yes) expect([text, await allows(text, fields)]).toEqual([text, true]);
    for (const text of no) expect([text, await allows(text, fields)]).toEqual([text, false]);
  });
});

describe('whitespace and other properties', () => {
  const wide = '{    "a":1}';
  const runaway = `{${' '.repeat(20)}"a":1}`;
  test('runs of whitespace are capped; vLLM’s have no end', async () => {
    expect(await allows(wide, outputs({ json: SCHEMA }))).toBe(true);
    expect(await allows(runaway, outputs({ json: SCHEMA }))).toBe(false);
    expect(await allows(' {"a":1}', outputs({ json: SCHEMA }))).toBe(false);
  });
  test('disable_any_whitespace and whitespace_pattern apply, also to a response_format', async () => {
    expect(await allows('{"a": 1}', outputs({ json: SCHEMA, disable_any_whitespace: true }))).toBe(false);
    expect(await allows('{"a":1}', outputs({ json: SCHEMA, disable_any_whitespace: true }))).toBe(true);
    expect(await allows('{"a":_1}', outputs({ json: SCHEMA, whitespace_pattern: '_' }))).toBe(true);
    expect(await allows('{"a": 1}', { ...schemaFormat(SCHEMA), ...outputs({ disable_any_whitespace: true }) })).toBe(
      false,
    );
  });
  test('undeclared properties are out unless schema or request lets them in', async () => {
    const other = '{"a":1,"z":2}';
    expect(await allows(other, outputs({ json: SCHEMA }))).toBe(false);
    expect(await allows(other, outputs({ json: { ...SCHEMA, additionalProperties: true } }))).toBe(true);
    expect(await allows(other, outputs({ json: SCHEMA, disable_additional_properties: false }))).toBe(true);
    expect(await allows(other, outputs({ json: SCHEMA, disable_fallback: true }))).toBe(false);
  });
});

describe('a property `__proto__`', () => {
  const SOURCE =
    '{"type":"object","properties":{"__proto__":{"type":"integer"},"constructor":{"type":"string"}},"required":["__proto__","constructor"],"additionalProperties":false}';
  const VALUE = '{"__proto__": 1, "constructor": "a"}';
  const MESSAGES = '"messages":[{"role":"user","content":"x"}],"temperature":0,"max_tokens":200';
  const TOOL = `{"type":"function","function":{"name":"f","strict":true,"parameters":${SOURCE}}}`;
  const ask = async (said: string, fields: string) => {
    service.setReply(said);
    const headers = { 'content-type': 'application/json' };
    const body = `{${MESSAGES},${fields}}`;
    const response = await service.server.request('POST', '/v1/chat/completions', body, headers);
    noticeRefusal(JSON.parse(body), response);
    if (response.statusCode !== 200) throw new Error(response.body);
    return response.json<ChatCompletion>().choices[0]!.message;
  };

  test.each([
    `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":${SOURCE}}}`,
    `"structured_outputs":{"json":${SOURCE}}`,
    `"structured_outputs":{"json":${JSON.stringify(SOURCE)}}`,
  ])('is held to its schema: %s', async (fields) => {
    expect((await ask(VALUE, fields)).content).toBe(VALUE);
    expect((await ask('{"constructor": "a"}', fields)).content).toMatch(/^\{\s*"__proto__"/);
  });

  test.each([
    [`[{"name": "f", "parameters": ${VALUE}}]`, '"tool_choice":"required"'],
    [VALUE, '"tool_choice":{"type":"function","function":{"name":"f"}}'],
    [`<tool_call>\n{"name": "f", "arguments": ${VALUE}}\n</tool_call>`, '"tool_choice":"auto"'],
  ])('is an argument: %s', async (said, choice) => {
    const { tool_calls: calls } = await ask(said, `"tools":[${TOOL}],${choice}`);
    expect(calls?.map((call) => call.function.arguments)).toEqual([VALUE]);
  });
});

describe('two kinds', () => {
  test('are refused across both fields; the same twice is the format’s', async () => {
    const json = { json: { type: 'integer' } };
    expect(await allows('{"a":1}', { ...schemaFormat(SCHEMA), ...outputs(json) })).toBe(true);
    expect(await allows('7', { ...schemaFormat(SCHEMA), ...outputs(json) })).toBe(false);
    expect(await service.refusal({ ...schemaFormat(SCHEMA), ...outputs({ regex: 'a' }) })).toBe(
      '400 structured_outputs',
    );
    expect(await allows('7', { response_format: null, ...outputs(json) })).toBe(true);
  });
});

describe('the end', () => {
  test('a complete constraint leaves nothing but the end, and the reply stops', async () => {
    service.prefer((reply) => ({ ['abcdef'.charAt(reply.length)]: 1, [END]: 0 }));
    expect(await service.reply({ ...GREEDY, ...outputs({ choice: ['abc'] }) })).toEqual({
      content: 'abc',
      reason: 'stop',
      stop: null,
    });
  });
  test('a constraint that could continue leaves the choice to the model', async () => {
    service.prefer((reply) => ({ '1': 1, [END]: reply.length >= 3 ? 2 : 0 }));
    expect(await service.content({ ...GREEDY, ...outputs({ regex: '[0-9]+' }) })).toBe('111');
  });
  test('`length` cuts a value as it is', async () => {
    service.setReply('{"a":12345}');
    expect(await service.reply({ ...GREEDY, max_tokens: 7, ...outputs({ json: SCHEMA }) })).toMatchObject({
      content: '{"a":12',
      reason: 'length',
    });
  });
  test('min_tokens does not keep a reply with a complete constraint from ending', async () => {
    service.setReply('abcdef');
    expect(await service.reply({ ...GREEDY, min_tokens: 50, ...outputs({ regex: 'ab' }) })).toMatchObject({
      content: 'ab',
      reason: 'stop',
    });
  });
  test('stop strings cut into it', async () => {
    service.setReply('{"a":1,"b":"x"}');
    expect(await service.reply({ ...GREEDY, stop: ',', ...outputs({ json: SCHEMA }) })).toMatchObject({
      content: '{"a":1',
      stop: ',',
    });
  });
  test('special tokens do not come inside', async () => {
    service.setReply('<|im_start|>');
    expect(
      await service.content({ ...GREEDY, max_tokens: 3, skip_special_tokens: false, ...outputs({ regex: '.*' }) }),
    ).not.toContain('im_start');
  });
  test('raw log-probabilities are those under the constraint', async () => {
    service.inference.model.setModel((_context, row) => void row.fill(0));
    const [first] = (
      await service.answer({ ...GREEDY, logprobs: true, top_logprobs: 4, ...outputs({ choice: ['a', 'b'] }) })
    ).choices[0]!.logprobs!.content;
    expect(first!.logprob).toBeCloseTo(-Math.LN2, 6);
    expect(first!.top_logprobs.map(({ logprob }) => logprob).slice(2)).toEqual([-9999, -9999]);
  });
});

describe('refused before the first byte, also as a stream', () => {
  const deep = (levels: number): unknown => (levels === 0 ? {} : { type: 'array', items: deep(levels - 1) });
  // prettier-ignore
  test.each<[string, Record<string, unknown>, string]>([
    ['an empty json text', outputs({ json: '' }), '400 structured_outputs'],
    ['an invalid json text', outputs({ json: '{' }), '400 structured_outputs'],
    ['the schema false', outputs({ json: false }), '400 structured_outputs'],
    ['an unknown type', schemaFormat({ type: 'text' }), '400 response_format'],
    ['bounds that cross', schemaFormat({ type: 'integer', minimum: 2, maximum: 1 }), '400 response_format'],
    ['a number beyond 2^53 in a schema', schemaFormat({ enum: [1, 2 ** 60] }), '400 response_format'],
    ['an empty enum', schemaFormat({ enum: [] }), '400 response_format'],
    ['a keyword that would not be enforced', schemaFormat({ not: {} }), '400 response_format'],
    ['a known string format that is not enforced', schemaFormat({ type: 'string', format: 'iri' }), '400 response_format'],
    ['a schema nested deeper than 64', schemaFormat(deep(70)), '400 response_format'],
    ['NUL in a regex', outputs({ regex: 'a\0' }), '400 structured_outputs'],
    ['a malformed regex', outputs({ regex: '(' }), '400 structured_outputs'],
    ['a blank grammar', outputs({ grammar: ' \n' }), '400 structured_outputs'],
    ['a grammar without root', outputs({ grammar: 'a ::= "a"' }), '400 structured_outputs'],
    ['a structural tag that is no JSON', outputs({ structural_tag: '{' }), '400 structured_outputs'],
    ['a structural tag without a format', { response_format: { type: 'structural_tag' } }, '400 response_format'],
    ['an unknown format of a tag', { response_format: { type: 'structural_tag', format: { type: 'hum' } } }, '400 response_format'],
    ['a begin without its trigger', { response_format: { type: 'structural_tag', triggers: ['['], structures: [{ begin: '<f>', schema: {}, end: '' }] } }, '400 response_format'],
    ['an invalid whitespace pattern', outputs({ json: {}, whitespace_pattern: '(' }), '400 structured_outputs'],
  ])('%s', async (_name, fields, expected) => {
    expect(await service.refusal(fields)).toBe(expected);
    expect(await service.refusal({ ...fields, stream: true })).toBe(expected);
  });
});

describe('next to reasoning and tools', () => {
  test('it starts after the reasoning, or at once without reasoning', async () => {
    const fields = { ...GREEDY, ...outputs({ regex: 'a+' }) };
    thinker.setReply('<think>hm, b?</think>aa');
    const [choice] = (await thinker.answer(fields)).choices;
    expect(choice!.message).toMatchObject({ reasoning: 'hm, b?', content: 'aa' });
    expect(await thinker.content({ ...fields, chat_template_kwargs: { enable_thinking: false } })).toMatch(/^a+$/);
    thinker.setReply('aaa');
    expect(await thinker.content(fields)).toBe('aaa');
  });

  test('with tool_choice auto a reply is calls or a message; a forced call replaces the constraint', async () => {
    const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }];
    expect(await held('abc', { tools, max_tokens: 3, ...outputs({ regex: 'a+' }) })).toMatch(/^a+$/);
    const call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>';
    service.setReply(call);
    const [called] = (await service.answer({ ...GREEDY, tools, ...outputs({ regex: 'a+' }) })).choices;
    expect(called).toMatchObject({
      finish_reason: 'tool_calls',
      message: { tool_calls: [{ function: { name: 'f' } }] },
    });
    expect(
      await held('<tool_call>', { tools, tool_choice: 'none', max_tokens: 3, ...outputs({ regex: 'a+' }) }),
    ).toMatch(/^a+$/);
    service.setReply('[{"name":"f","parameters":{}}]');
    const [choice] = (
      await service.answer({ ...GREEDY, tools, tool_choice: 'required', response_format: { type: 'json_object' } })
    ).choices;
    expect(choice!.message.tool_calls).toMatchObject([{ function: { name: 'f', arguments: '{}' } }]);
    const named = { type: 'function', function: { name: 'f' } };
    expect(await service.refusal({ tools, tool_choice: named, ...outputs({ regex: 'a+' }) })).toBe(
      '400 structured_outputs',
    );
  });
});

describe('a forced call with an unenforceable schema', () => {
  const BEYOND = {
    not: { not: {} },
    uniqueItems: { type: 'array', items: { type: 'integer' }, uniqueItems: true },
    propertyNames: { type: 'object', propertyNames: { format: 'email' } },
    format: { type: 'string', format: 'iri' },
    pattern: { type: 'string', pattern: '^(?=a).*$' },
    'a step beyond 2^53': { type: 'integer', multipleOf: 2 ** 63 },
    'a constant beyond 2^53': { const: 2 ** 60 },
    oneOf: { oneOf: [{ type: 'integer' }, { type: 'number', minimum: 3 }] },
  };
  const forced = (value: object, strict?: boolean) => ({
    tools: [
      {
        type: 'function',
        function: { name: 'f', parameters: { type: 'object', properties: { value }, required: ['value'] }, strict },
      },
    ],
    tool_choice: 'required',
    max_tokens: 20,
  });
  test.each(Object.entries(BEYOND))(
    '%s: held to the rest unless the tool is strict, which is refused',
    async (_, value) => {
      expect((await service.server.chat(forced(value))).statusCode).toBe(200);
      expect(await service.refusal(forced(value, true))).toBe('400 tools');
    },
  );
});
