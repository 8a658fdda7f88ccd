import type { ConstraintSpec } from '@trainyard/constraints';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ReplyReading } from '../contract/generate-request.ts';
import { prompt, reading, ReplyHarness, THINKER, tool, TURNS } from '../testing/reply-harness.ts';

/** Marks of calls that are single tokens; `spelled` has none of them. */
const MARKS = ['<think>', '</think>', '<tool_call>', '</tool_call>'];
let harness: ReplyHarness;
let spelled: ReplyHarness;
beforeAll(async () => {
  harness = await ReplyHarness.create(MARKS);
  spelled = await ReplyHarness.create();
});
afterAll(() => {
  harness.close();
  spelled.close();
});

const teaching = (mark: string) => `${TURNS}{% if tools %}{{ tools | tojson }}{{ '${mark}' }}{% endif %}`;
const HERMES = teaching('<tool_call>');
const XML = teaching('<tool_call><function=x><parameter=y>');
const LLAMA = teaching('<|python_tag|>');
const MISTRAL = teaching('[TOOL_CALLS]');
const KIMI = teaching('<|tool_call_argument_begin|>');
const GLM = teaching('<tool_call><arg_key>');
const MINIMAX = teaching('<minimax:tool_call>');
const GRANITE = teaching('<|tool_call|> JSON list');
const NEMOTRON = teaching('<TOOLCALL>');
const COHERE = teaching('<|START_ACTION|>');
const PYTHONIC = teaching('[f(x=1)]');

const ANSWER: ConstraintSpec = {
  kind: 'json_schema',
  schema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
  whitespace: { kind: 'none' },
  closesObjects: true,
};
const strict = (name: string) => {
  const { function: described, type } = tool(name);
  return { type, function: { ...described, strict: true } };
};

/** Outcome of a text that the model tries to write. */
function outcome(
  text: string,
  source: string,
  read: Partial<ReplyReading> = {},
  { constraint = ANSWER, on = harness } = {},
) {
  const answer = on.reply(text, { constraint, reply: reading(read), maxTokens: 400 }, source);
  const { parsed, finishReason } = answer.finished()!;
  const calls = parsed?.toolCalls.map((call) => `${call.name}${call.arguments}`) ?? [];
  return { text: answer.text(), content: parsed?.content ?? null, calls, finishReason };
}

const FORMATS = [
  ['hermes', HERMES, '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>', '\n'],
  ['qwen_xml', XML, '<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>', '\n'],
  ['llama3_json', LLAMA, '{"name": "f", "parameters": {"x": 1}}', '; '],
] as const;

describe.each(FORMATS)('with a constraint and tools to call or not, a %s reply', (_name, source, call, separator) => {
  test.each([
    ['with the marks as tokens', () => harness],
    ['with the marks spelled', () => spelled],
  ])('may be a call, %s', (_kind, on) => {
    expect(outcome(call, source, {}, { on: on() })).toEqual({
      text: call,
      content: null,
      calls: ['f{"x": 1}'],
      finishReason: 'stop',
    });
  });

  test('may be several calls, unless one is asked for', () => {
    const several = call + separator + call;
    expect(outcome(several, source).calls).toEqual(['f{"x": 1}', 'f{"x": 1}']);
    expect(outcome(several, source, { parallelToolCalls: false })).toMatchObject({ text: call, calls: ['f{"x": 1}'] });
  });

  test('may follow the constraint', () => {
    const text = '{"name":"Ann"}';
    expect(outcome(text, source).text).toBe(text);
  });

  test('can be nothing else: free text, another tool', () => {
    for (const text of ['Well, ', call.replace(/"f"|=f/, (name) => name.replace('f', 'h'))]) {
      const { text: said, calls, finishReason } = outcome(text, source);
      expect(said).not.toBe(text);
      expect(finishReason === 'stop' || finishReason === 'length').toBe(true);
      // A truncated call may not have reached its arguments.
      for (const made of calls) expect(made).toMatch(finishReason === 'length' ? /^[fg](?:\{|$)/ : /^[fg]\{/);
    }
  });

  test('is held only to the constraint if the model may not choose calls', () => {
    expect(outcome(call, source, { toolChoice: 'none' }).text).toMatch(/^\{"name":"/);
    expect(harness.reply(call, { constraint: ANSWER }, source).text()).toMatch(/^\{"name":"/);
  });
});

const JSON_CALL = '{"name": "f", "arguments": {"x": 1}}';
const kimi = (index: number) =>
  `<|tool_call_begin|>functions.f:${index}<|tool_call_argument_begin|>{"x": 1}<|tool_call_end|>`;
const kimiSection = (calls: string) => `<|tool_calls_section_begin|>${calls}<|tool_calls_section_end|>`;
const glm = '<tool_call>f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>';
const invoke = '<invoke name="f">\n<parameter name="x">1</parameter>\n</invoke>';
const minimaxSection = (calls: string) => `<minimax:tool_call>\n${calls}\n</minimax:tool_call>`;
const cohere = (index: number) => `    {"tool_call_id": "${index}", "tool_name": "f", "parameters": {"x": 1}}`;
const FAMILIES = [
  ['kimi_k2', KIMI, kimiSection(kimi(0)), kimiSection(kimi(0) + kimi(1))],
  ['glm', GLM, glm, `${glm}\n${glm}`],
  ['minimax_m2', MINIMAX, minimaxSection(invoke), minimaxSection(`${invoke}\n${invoke}`)],
  ['granite', GRANITE, `<|tool_call|>[${JSON_CALL}]`, `<|tool_call|>[${JSON_CALL}, ${JSON_CALL}]`],
  ['nemotron', NEMOTRON, `<TOOLCALL>[${JSON_CALL}]</TOOLCALL>`, `<TOOLCALL>[${JSON_CALL}, ${JSON_CALL}]</TOOLCALL>`],
  [
    'cohere',
    COHERE,
    `<|START_ACTION|>[\n${cohere(0)}\n]<|END_ACTION|>`,
    `<|START_ACTION|>[\n${cohere(0)},\n${cohere(1)}\n]<|END_ACTION|>`,
  ],
] as const;

test.each(FAMILIES)(
  'with a constraint and tools to call or not, a reply in the format %s',
  (_name, source, one, two) => {
    const call = 'f{"x": 1}';
    expect(outcome(one, source)).toEqual({ text: one, content: null, calls: [call], finishReason: 'stop' });
    expect(outcome(two, source)).toEqual({ text: two, content: null, calls: [call, call], finishReason: 'stop' });
    expect(outcome(two, source, { parallelToolCalls: false }).calls).toEqual([call]);
    expect(outcome('{"name":"Ann"}', source).text).toBe('{"name":"Ann"}');
    expect(outcome('Well, ', source).text).not.toBe('Well, ');
  },
);

const NAMED: [name: string, source: string][] = [
  ...[...FORMATS, ...FAMILIES].map(([name, source]): [string, string] => [name, source]),
  ['harmony', teaching('<|channel|>functions<|call|>')],
  ['pythonic', PYTHONIC],
];

test.each(NAMED)('calls that are forced do not depend on the format %s', (_name, source) => {
  const held = (toolChoice: ReplyReading['toolChoice'], text: string) =>
    harness
      .reply(text, { reply: reading({ toolChoice }) }, source)
      .finished()
      ?.parsed?.toolCalls.map((made) => made.name + made.arguments);
  expect(held('required', '[{"name": "f", "parameters": {"x": 1}}]')).toEqual(['f{"x": 1}']);
  expect(held({ name: 'g' }, '{"x": 2}')).toEqual(['g{"x": 2}']);
});

describe('a call next to a constraint', () => {
  const call = (args: string) => `<tool_call>\n{"name": "f", "arguments": ${args}}\n</tool_call>`;

  test('has arguments of its schema if its tool is strict, else any', () => {
    expect(outcome(call('{"y": "a"}'), HERMES).calls).toEqual(['f{"y": "a"}']);
    const held = outcome(call('{"y": "a"}'), HERMES, { tools: [strict('f')] });
    expect(held.text).toMatch(/"arguments": \{\s*"x"/);
    expect(outcome(call('{"x": 5}'), HERMES, { tools: [strict('f')] }).calls).toEqual(['f{"x": 5}']);
    expect(outcome(call('{"x": 5, "y": 6}'), HERMES, { tools: [strict('f')] }).text).not.toContain('"y"');
    const idle = { type: 'function' as const, function: { name: 'f', strict: true } };
    expect(outcome(call('{}'), HERMES, { tools: [idle] }).calls).toEqual(['f{}']);
    const parameters = { $ref: '#/$defs/p', $defs: { p: tool('f').function.parameters } };
    for (const [source, text] of [
      [HERMES, call('{"x": 5}')],
      [LLAMA, '{"name": "f", "parameters": {"x": 5}}'],
    ] as const) {
      const referring = { type: 'function' as const, function: { name: 'f', parameters, strict: true } };
      expect(outcome(text, source, { tools: [referring] }).calls).toEqual(['f{"x": 5}']);
    }
  });

  const CONSTRAINTS: [ConstraintSpec, string][] = [
    [{ kind: 'json_object', whitespace: { kind: 'capped' } }, '{"a": [1]}'],
    [{ kind: 'regex', pattern: '<[a-z]+>.*' }, '<table> <tool_call>'],
    [{ kind: 'choice', choices: ['<t', 'yes'] }, '<t'],
    [{ kind: 'grammar', source: 'root ::= "<" [a-z]+ ">"' }, '<table>'],
    [{ kind: 'grammar', source: 'start: "a" B\nB: /b+/' }, 'abb'],
    [
      {
        kind: 'structural_tag',
        tag: { format: { type: 'tag', begin: '<t>', content: { type: 'any_text' }, end: '</t>' } },
      },
      '<t>x</t>',
    ],
  ];
  test.each(CONSTRAINTS)('of another kind: %j', (constraint, text) => {
    for (const on of [harness, spelled]) {
      expect(outcome(text, HERMES, {}, { constraint, on }).text).toBe(text);
      expect(outcome(call('{}'), HERMES, {}, { constraint, on }).calls).toEqual(['f{}']);
    }
  });

  test('comes behind reasoning', () => {
    const answer = harness.reply(`<think>Hm.</think>${call('{}')}`, { constraint: ANSWER, reply: reading() }, THINKER);
    expect(answer.finished()?.parsed).toMatchObject({ reasoning: 'Hm.', toolCalls: [{ name: 'f' }] });
    const closed = { prompt: prompt({ enable_thinking: false }), constraint: ANSWER, reply: reading() };
    expect(harness.reply(call('{}'), closed, THINKER).finished()?.parsed?.toolCalls).toHaveLength(1);
  });

  test('of Mistral is a list after its mark', () => {
    const text = '[TOOL_CALLS][{"name": "f", "arguments": {"x": 1}}, {"name": "g", "arguments": {}}]';
    expect(outcome(text, MISTRAL).calls).toEqual(['f{"x": 1}', 'g{}']);
  });

  test('of one of too many tools cannot come: only the constraint holds', () => {
    const tools = Array.from({ length: 400 }, (_, index) => tool(`f${index}`));
    expect(outcome(call('{}'), HERMES, { tools }).text).toMatch(/^\{"name":"/);
  });

  test('in a format that cannot be described cannot come: the constraint holds', () => {
    expect(outcome('[f(x=1)]', PYTHONIC).text).toMatch(/^\{"name":"/);
  });
});
