import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ToolDescription } from '../contract/tool-description.ts';
import { ReplyParser, type ReplyParserOptions } from './reply-parser.ts';
import type { ParsedReply, ReplyDelta } from './reply-record.ts';
import type { ToolFormat } from './tool-format.ts';

const TOOLS: ToolDescription[] = [
  {
    type: 'function',
    function: {
      name: 'f',
      parameters: {
        type: 'object',
        properties: {
          city: { type: 'string' },
          count: { type: 'integer' },
          ratio: { type: 'number' },
          isOn: { type: 'boolean' },
          list: { type: 'array' },
          place: { type: 'object' },
          maybe: { anyOf: [{ type: 'integer' }, { type: 'null' }] },
          unit: { enum: ['c', 'f'] },
        },
      },
    },
  },
];

type Overrides = Partial<ReplyParserOptions>;
const options = (toolFormat: ToolFormat | null, overrides: Overrides = {}): ReplyParserOptions => ({
  tools: TOOLS,
  toolFormat,
  parallelToolCalls: true,
  reasoning: null,
  toolCallId: (index) => `id${index}`,
  ...(toolFormat === 'named' ? { namedTool: 'f' } : {}),
  ...overrides,
});

/** Sum of the deltas. */
function stream(settings: ReplyParserOptions, pieces: readonly string[]) {
  const parser = new ReplyParser(settings);
  const sum = { content: '', reasoning: '', toolCalls: [] as ParsedReply['toolCalls'] };
  const deltas: ReplyDelta[] = [...pieces.map((piece) => parser.push(piece)), parser.end()];
  for (const delta of deltas) {
    sum.content += delta.content;
    sum.reasoning += delta.reasoning;
    for (const call of delta.toolCalls) {
      if (call.id !== undefined && call.name !== undefined) {
        expect(call.index).toBe(sum.toolCalls.length);
        sum.toolCalls.push({ id: call.id, name: call.name, arguments: '' });
      }
      const known = sum.toolCalls[call.index];
      if (known === undefined) throw new Error(`a delta for call ${call.index} before its start`);
      known.arguments += call.arguments;
    }
  }
  return { sum, result: parser.result(), deltas };
}

interface Fixture {
  about: string;
  format: ToolFormat | null;
  overrides?: Overrides;
  text: string;
  content: string | null;
  reasoning?: string;
  calls?: [string, string][];
}

const CONSTRAINED: Overrides = { isConstrained: true };
const INSIDE = { reasoning: { startsInside: true, isDisabled: false } };
const OUTSIDE = { reasoning: { startsInside: false, isDisabled: false } };
const DISABLED = { reasoning: { startsInside: false, isDisabled: true } };
const call = (body: string) => `<tool_call>\n${body}\n</tool_call>`;
const F = '{"name": "f", "arguments": {"a": 1}}';

const PLAIN: Fixture[] = [
  { about: 'text', format: null, text: 'Hello <b>', content: 'Hello <b>' },
  { about: 'nothing', format: null, text: '', content: '' },
  { about: 'marks, without a search for them', format: null, text: call(F), content: call(F) },
  { about: 'think tags, when they are content', format: null, text: '<think>a</think>b', content: '<think>a</think>b' },
];

const REASONING: Fixture[] = [
  {
    about: 'opened by the prompt',
    format: null,
    overrides: INSIDE,
    text: 'a\nb</think>\n\nc',
    reasoning: 'a\nb',
    content: '\n\nc',
  },
  {
    about: 'opened again',
    format: null,
    overrides: INSIDE,
    text: '\n<think>\na</think>c',
    reasoning: '\na',
    content: 'c',
  },
  {
    about: 'never closed',
    format: null,
    overrides: INSIDE,
    text: '\nstill <tool_call>',
    reasoning: '\nstill <tool_call>',
    content: null,
  },
  {
    about: 'closed at the very end',
    format: null,
    overrides: INSIDE,
    text: 'a</think>',
    reasoning: 'a',
    content: null,
  },
  {
    about: 'a beginning of the end tag',
    format: null,
    overrides: INSIDE,
    text: 'a</thin',
    reasoning: 'a</thin',
    content: null,
  },
  {
    about: 'opened by the reply',
    format: null,
    overrides: OUTSIDE,
    text: '\n<think>\na\n</think>\nb',
    reasoning: '\na\n',
    content: '\nb',
  },
  {
    about: 'opened by the reply, never closed',
    format: null,
    overrides: OUTSIDE,
    text: '<think>a',
    reasoning: 'a',
    content: null,
  },
  { about: 'never opened', format: null, overrides: OUTSIDE, text: ' a</think>b', content: ' a</think>b' },
  { about: 'empty', format: null, overrides: OUTSIDE, text: '<think></think>x', content: 'x' },
  { about: 'nothing at all', format: null, overrides: OUTSIDE, text: '', content: null },
  { about: 'switched off', format: null, overrides: DISABLED, text: 'a</think>b', content: 'a</think>b' },
  {
    about: 'then a call',
    format: 'hermes',
    overrides: INSIDE,
    text: `<tool_call>?</think>\n\n${call(F)}`,
    reasoning: '<tool_call>?',
    content: null,
    calls: [['f', '{"a": 1}']],
  },
  {
    about: 'then a broken call',
    format: 'hermes',
    overrides: INSIDE,
    text: 'a</think>b<tool_call>?',
    reasoning: 'a',
    content: 'b<tool_call>?',
  },
  {
    about: 'never closed, with a call inside',
    format: 'hermes',
    overrides: INSIDE,
    text: call(F),
    reasoning: call(F),
    content: null,
  },
  {
    about: 'then chosen arguments',
    format: 'named',
    overrides: INSIDE,
    text: 'a</think>{"b":1}',
    reasoning: 'a',
    content: '',
    calls: [['f', '{"b":1}']],
  },
];

const HERMES: Fixture[] = [
  { about: 'a call', format: 'hermes', text: call(F), content: null, calls: [['f', '{"a": 1}']] },
  { about: 'no call', format: 'hermes', text: '\n Hi <tool> a_call', content: '\n Hi <tool> a_call' },
  { about: 'blank text', format: 'hermes', text: ' \n', content: ' \n' },
  { about: 'a beginning of a tag at the end', format: 'hermes', text: 'Hi <tool_cal', content: 'Hi <tool_cal' },
  {
    about: 'white space alone in front',
    format: 'hermes',
    text: `\n\n${call(F)}`,
    content: null,
    calls: [['f', '{"a": 1}']],
  },
  {
    about: 'text before and after',
    format: 'hermes',
    text: `Let me see.\n${call(F)} done`,
    content: 'Let me see.\n',
    calls: [['f', '{"a": 1}']],
  },
  {
    about: 'several calls, white space or not',
    format: 'hermes',
    text: `${call(F)}between<tool_call>{"name":"g","arguments":{}}</tool_call>${call('{"arguments": {"b":[1,2,{}]} ,"name":"h"}')}`,
    content: null,
    calls: [
      ['f', '{"a": 1}'],
      ['g', '{}'],
      ['h', '{"b": [1, 2, {}]}'],
    ],
  },
  {
    about: 'not parallel',
    format: 'hermes',
    overrides: { parallelToolCalls: false },
    text: `${call(F)}\n<tool_call>broken`,
    content: null,
    calls: [['f', '{"a": 1}']],
  },
  { about: 'no closing tag', format: 'hermes', text: `<tool_call>${F}`, content: null, calls: [['f', '{"a": 1}']] },
  {
    about: 'half a closing tag',
    format: 'hermes',
    text: `<tool_call>${F}\n</tool_`,
    content: null,
    calls: [['f', '{"a": 1}']],
  },
  { about: 'no arguments', format: 'hermes', text: call('{"name": "f"}'), content: null, calls: [['f', '{}']] },
  {
    about: 'null arguments',
    format: 'hermes',
    text: call('{"name": "f", "arguments": null}'),
    content: null,
    calls: [['f', '{}']],
  },
  {
    about: 'arguments written as the text of an object',
    format: 'hermes',
    text: call(String.raw`{"name": "f", "arguments": "{\"s\":\"x\\n\", \"n\": 1.0}"}`),
    content: null,
    calls: [['f', String.raw`{"s": "x\n", "n": 1.0}`]],
  },
  {
    about: 'arguments written as the text of an object, in front of the name',
    format: 'hermes',
    text: call(String.raw`{"arguments": "{\"s\": 1}", "name": "f"}`),
    content: null,
    calls: [['f', '{"s": 1}']],
  },
  ...['""', '["x"]', '5', 'true', '"x"', '"[1]"', String.raw`"{\"a\": 1} x"`].map((value): Fixture => {
    const text = call(`{"name": "f", "arguments": ${value}}`);
    return { about: `arguments that are no object: ${value}`, format: 'hermes', text, content: text };
  }),
  {
    about: 'parameters for arguments',
    format: 'hermes',
    text: call('{"name": "f", "parameters": {"a": null}}'),
    content: null,
    calls: [['f', '{"a": null}']],
  },
  {
    about: 'other keys',
    format: 'hermes',
    text: call('{"id": [1, {"name": 2}], "name": "f", "arguments": {}, "x": "}"}'),
    content: null,
    calls: [['f', '{}']],
  },
  {
    about: 'a closing tag inside a string',
    format: 'hermes',
    text: call('{"name": "f", "arguments": {"a": "</tool_call><tool_call>"}}'),
    content: null,
    calls: [['f', '{"a": "</tool_call><tool_call>"}']],
  },
  {
    about: 'spacing, escapes, numbers as json.dumps(…, ensure_ascii=False) writes them, numbers as sampled',
    format: 'hermes',
    text: call(
      String.raw`{"name":"f","arguments":{"a":"\u00e9\/\ud83d\ude00\"\n\u0001\ud83dx",  "b" : [ 1.0,-2e5 ,true,false, null ],"c":{ },"d":[ ],"e":12345678901234567890}}`,
    ),
    content: null,
    calls: [
      [
        'f',
        String.raw`{"a": "é/😀\"\n\u0001\ud83dx", "b": [1.0, -2e5, true, false, null], "c": {}, "d": [], "e": 12345678901234567890}`,
      ],
    ],
  },
  {
    about: 'a name with an escape',
    format: 'hermes',
    text: call(String.raw`{"name": "g\u00e9", "arguments": {}}`),
    content: null,
    calls: [['gé', '{}']],
  },
  // Malformed: content from the opening tag on.
  {
    about: 'no JSON',
    format: 'hermes',
    text: 'a<tool_call>hello</tool_call>b',
    content: 'a<tool_call>hello</tool_call>b',
  },
  { about: 'nothing in it', format: 'hermes', text: '<tool_call>\n', content: '<tool_call>\n' },
  { about: 'no name', format: 'hermes', text: call('{"arguments": {}}'), content: call('{"arguments": {}}') },
  { about: 'an empty object', format: 'hermes', text: call('{}'), content: call('{}') },
  { about: 'an empty name', format: 'hermes', text: call('{"name": ""}'), content: call('{"name": ""}') },
  { about: 'a name that is no string', format: 'hermes', text: call('{"name": 1}'), content: call('{"name": 1}') },
  {
    about: 'cut off in the arguments',
    format: 'hermes',
    text: 'a<tool_call>{"name": "f", "arguments": {"a": "b',
    content: 'a<tool_call>{"name": "f", "arguments": {"a": "b',
  },
  {
    about: 'a missing brace',
    format: 'hermes',
    text: '<tool_call>{"name": "f", "arguments": {"a": 1}</tool_call>',
    content: '<tool_call>{"name": "f", "arguments": {"a": 1}</tool_call>',
  },
  {
    about: 'a wrong second call',
    format: 'hermes',
    text: `${call(F)}x<tool_call>{"name": f}</tool_call>y${call(F)}`,
    content: `<tool_call>{"name": f}</tool_call>y${call(F)}`,
    calls: [['f', '{"a": 1}']],
  },
  {
    about: 'a comma too much',
    format: 'hermes',
    text: '<tool_call>{"name": "f", "arguments": {"a": [1,]}}</tool_call>',
    content: '<tool_call>{"name": "f", "arguments": {"a": [1,]}}</tool_call>',
  },
  {
    about: 'a line break in a string',
    format: 'hermes',
    text: '<tool_call>{"name": "f", "arguments": {"a": "b\nc"}}',
    content: '<tool_call>{"name": "f", "arguments": {"a": "b\nc"}}',
  },
];

const xml = (body: string) => `<tool_call>\n<function=f>\n${body}</function>\n</tool_call>`;
const parameter = (key: string, value: string) => `<parameter=${key}>\n${value}\n</parameter>\n`;
const QWEN_XML: Fixture[] = [
  {
    about: 'values by their types',
    format: 'qwen_xml',
    text: `I will.\n${xml(
      parameter('city', '12') +
        parameter('count', '12') +
        parameter('ratio', '1.5') +
        parameter('isOn', 'True') +
        parameter('list', '[1,"a"]') +
        parameter('place', '{"x":{"y":1}}') +
        parameter('maybe', 'None') +
        parameter('unit', 'c'),
    )}`,
    content: 'I will.\n',
    calls: [
      [
        'f',
        '{"city": "12", "count": 12, "ratio": 1.5, "isOn": true, "list": [1, "a"], "place": {"x": {"y": 1}}, "maybe": null, "unit": "c"}',
      ],
    ],
  },
  {
    about: 'values that do not fit their types stay text, unknown ones too',
    format: 'qwen_xml',
    text: xml(
      parameter('count', '1.5') +
        parameter('isOn', 'yes') +
        parameter('list', '{}') +
        parameter('place', '[') +
        parameter('new', '7') +
        parameter('city', 'null'),
    ),
    content: null,
    calls: [['f', '{"count": "1.5", "isOn": "yes", "list": "{}", "place": "[", "new": "7", "city": "null"}']],
  },
  {
    about: 'large numbers keep their digits',
    format: 'qwen_xml',
    text: xml(parameter('count', '12345678901234567890')),
    content: null,
    calls: [['f', '{"count": 12345678901234567890}']],
  },
  {
    about: 'one newline at each end is no part of a value',
    format: 'qwen_xml',
    text: xml('<parameter=city>\n\n a <b>\n"c"\n\n</parameter>'),
    content: null,
    calls: [['f', String.raw`{"city": "\n a <b>\n\"c\"\n"}`]],
  },
  {
    about: 'no outer tag, no newlines',
    format: 'qwen_xml',
    text: 'x<function=f><parameter=city>a</parameter></function>',
    content: 'x',
    calls: [['f', '{"city": "a"}']],
  },
  {
    about: 'no parameters',
    format: 'qwen_xml',
    text: '<tool_call><function=g></function></tool_call>',
    content: null,
    calls: [['g', '{}']],
  },
  {
    about: 'several calls',
    format: 'qwen_xml',
    text: `${xml('')}\n${xml(parameter('city', 'a'))}<function=h></function>`,
    content: null,
    calls: [
      ['f', '{}'],
      ['f', '{"city": "a"}'],
      ['h', '{}'],
    ],
  },
  {
    about: 'not parallel',
    format: 'qwen_xml',
    overrides: { parallelToolCalls: false },
    text: `${xml('')}${xml('')}`,
    content: null,
    calls: [['f', '{}']],
  },
  {
    about: 'a parameter that is not closed',
    format: 'qwen_xml',
    text: '<function=f><parameter=city>a<parameter=unit>c</function>',
    content: null,
    calls: [['f', '{"city": "a", "unit": "c"}']],
  },
  {
    about: 'no closing tags',
    format: 'qwen_xml',
    text: '<tool_call><function=f><parameter=city>a</parameter>',
    content: null,
    calls: [['f', '{"city": "a"}']],
  },
  {
    about: 'tools that are not known',
    format: 'qwen_xml',
    overrides: { tools: null },
    text: xml(parameter('count', '1')),
    content: null,
    calls: [['f', '{"count": "1"}']],
  },
  { about: 'JSON instead', format: 'qwen_xml', text: call(F), content: call(F) },
  { about: 'no name', format: 'qwen_xml', text: '<function=></function>', content: '<function=></function>' },
  {
    about: 'cut off in a value',
    format: 'qwen_xml',
    text: '<function=f><parameter=unit>c</parameter><parameter=city>a',
    content: '<function=f><parameter=unit>c</parameter><parameter=city>a',
  },
  {
    about: 'text between parameters',
    format: 'qwen_xml',
    text: '<function=f>so<parameter=city>a</parameter></function>',
    content: '<function=f>so<parameter=city>a</parameter></function>',
  },
];

const LLAMA: Fixture[] = [
  {
    about: 'an object',
    format: 'llama3_json',
    text: '{"name": "f", "parameters": {"a":1}}',
    content: null,
    calls: [['f', '{"a": 1}']],
  },
  {
    about: 'arguments for parameters, type in front',
    format: 'llama3_json',
    text: '\n{"type": "function", "name": "f", "arguments": {}}',
    content: null,
    calls: [['f', '{}']],
  },
  {
    about: 'parameters in front of the name',
    format: 'llama3_json',
    text: '{"parameters": {"a": "x"}, "name": "f"}',
    content: null,
    calls: [['f', '{"a": "x"}']],
  },
  {
    about: 'several',
    format: 'llama3_json',
    text: '{"name":"f","parameters":{}}; {"name":"g","parameters":{}} {"name":"h","parameters":{}}',
    content: null,
    calls: [
      ['f', '{}'],
      ['g', '{}'],
      ['h', '{}'],
    ],
  },
  {
    about: 'not parallel',
    format: 'llama3_json',
    overrides: { parallelToolCalls: false },
    text: '{"name":"f","parameters":{}}; {"name',
    content: null,
    calls: [['f', '{}']],
  },
  {
    about: 'after a python tag',
    format: 'llama3_json',
    text: 'Sure.<|python_tag|>{"name":"f","parameters":{}}',
    content: 'Sure.',
    calls: [['f', '{}']],
  },
  {
    about: 'text behind',
    format: 'llama3_json',
    text: '{"name":"f","parameters":{}} is my call',
    content: null,
    calls: [['f', '{}']],
  },
  { about: 'text', format: 'llama3_json', text: 'The set {"name": 1}', content: 'The set {"name": 1}' },
  {
    about: 'another object',
    format: 'llama3_json',
    text: ' {"answer": {"name": "f"}} ok',
    content: ' {"answer": {"name": "f"}} ok',
  },
  {
    about: 'arguments written as the text of an object',
    format: 'llama3_json',
    text: String.raw`{"name": "f", "parameters": "{\"a\":1}"}`,
    content: null,
    calls: [['f', '{"a": 1}']],
  },
  {
    about: 'arguments that are a number',
    format: 'llama3_json',
    text: '{"name": "f", "parameters": 5}',
    content: '{"name": "f", "parameters": 5}',
  },
  { about: 'a name alone', format: 'llama3_json', text: '{"name": "Ada"}', content: '{"name": "Ada"}' },
  {
    about: 'a name and something else',
    format: 'llama3_json',
    text: '{"name": "Ada", "age": 3}',
    content: '{"name": "Ada", "age": 3}',
  },
  {
    about: 'code after a python tag',
    format: 'llama3_json',
    text: '<|python_tag|>print(1)',
    content: '<|python_tag|>print(1)',
  },
  {
    about: 'a wrong second one',
    format: 'llama3_json',
    text: '{"name":"f","parameters":{}}; {"x":1}',
    content: '{"x":1}',
    calls: [['f', '{}']],
  },
];

const MISTRAL: Fixture[] = [
  {
    about: 'a list',
    format: 'mistral',
    text: '[TOOL_CALLS] [{"name": "f", "arguments": {"a":1}, "id": "abcdefghi"}, {"name": "g", "arguments": {}}]',
    content: null,
    calls: [
      ['f', '{"a": 1}'],
      ['g', '{}'],
    ],
  },
  {
    about: 'text in front',
    format: 'mistral',
    text: 'Let me.[TOOL_CALLS][{"name": "f"}]',
    content: 'Let me.',
    calls: [['f', '{}']],
  },
  {
    about: 'not parallel',
    format: 'mistral',
    overrides: { parallelToolCalls: false },
    text: '[TOOL_CALLS][{"name": "f"}, {',
    content: null,
    calls: [['f', '{}']],
  },
  {
    about: 'a list that is not closed',
    format: 'mistral',
    text: '[TOOL_CALLS][{"name": "f", "arguments": {}}',
    content: null,
    calls: [['f', '{}']],
  },
  {
    about: 'name and arguments',
    format: 'mistral',
    text: '[TOOL_CALLS]f[ARGS]{"a":1}[TOOL_CALLS]g{"b": 2}[TOOL_CALLS]h[CALL_ID]abcdefghi[ARGS]{}',
    content: null,
    calls: [
      ['f', '{"a": 1}'],
      ['g', '{"b": 2}'],
      ['h', '{}'],
    ],
  },
  {
    about: 'arguments written as the text of an object',
    format: 'mistral',
    text: String.raw`[TOOL_CALLS]f[ARGS]"{\"a\":1}"[TOOL_CALLS][{"name": "g", "arguments": "{}"}]`,
    content: null,
    calls: [
      ['f', '{"a": 1}'],
      ['g', '{}'],
    ],
  },
  {
    about: 'arguments that are a list',
    format: 'mistral',
    text: '[TOOL_CALLS]f[ARGS][1]',
    content: '[TOOL_CALLS]f[ARGS][1]',
  },
  {
    about: 'an object without a list',
    format: 'mistral',
    text: '[TOOL_CALLS]{"name": "f", "arguments": {}}',
    content: null,
    calls: [['f', '{}']],
  },
  { about: 'an empty list', format: 'mistral', text: 'No.[TOOL_CALLS][]', content: 'No.' },
  { about: 'text', format: 'mistral', text: '[TOOL] [1]', content: '[TOOL] [1]' },
  { about: 'no JSON', format: 'mistral', text: '[TOOL_CALLS] none', content: '[TOOL_CALLS] none' },
  {
    about: 'a wrong second one',
    format: 'mistral',
    text: '[TOOL_CALLS][{"name": "f"}, {"nam]',
    content: '{"nam]',
    calls: [['f', '{}']],
  },
];

const PYTHONIC: Fixture[] = [
  {
    about: 'calls',
    format: 'pythonic',
    text: `[f(a=1, b='x"', c=[True, None, {'k': (1.5, -2e3)}], ), g(), h.i(s="it's )]\\n\\u00e9\\x41\\d")]`,
    content: null,
    calls: [
      ['f', String.raw`{"a": 1, "b": "x\"", "c": [true, null, {"k": [1.5, -2e3]}]}`],
      ['g', '{}'],
      ['h.i', String.raw`{"s": "it's )]\néA\\d"}`],
    ],
  },
  {
    about: 'in tags, with text around',
    format: 'pythonic',
    text: 'Sure.<|tool_call_start|>[f(a=1)]<|tool_call_end|>Wait.',
    content: 'Sure.',
    calls: [['f', '{"a": 1}']],
  },
  {
    about: 'a line break in a string',
    format: 'pythonic',
    text: "[f(a='x\ny')]",
    content: null,
    calls: [['f', String.raw`{"a": "x\ny"}`]],
  },
  {
    about: 'white space around',
    format: 'pythonic',
    text: ' \n[ f( a = 1 ) ]\n',
    content: null,
    calls: [['f', '{"a": 1}']],
  },
  {
    about: 'not parallel',
    format: 'pythonic',
    overrides: { parallelToolCalls: false },
    text: '[f(), 3]',
    content: null,
    calls: [['f', '{}']],
  },
  {
    about: 'a list that is not closed',
    format: 'pythonic',
    text: '[f(a=1)',
    content: null,
    calls: [['f', '{"a": 1}']],
  },
  { about: 'a citation', format: 'pythonic', text: '[1] says so', content: '[1] says so' },
  { about: 'a link', format: 'pythonic', text: '[docs](http://x)', content: '[docs](http://x)' },
  { about: 'text', format: 'pythonic', text: 'f(a=1)', content: 'f(a=1)' },
  ...[
    '[f(1)]',
    '[f(a=b)]',
    '[f(a=1, a=2)]',
    '[f(a=g())]',
    '[f(a=007)]',
    '[f(a="x]',
    '[f(a=[1)]',
    '[f(a={1: 2})]',
    '[f(a=1 b=2)]',
    '[f(__class__=__proto__)]',
    '[f(a="\\U00110000")]',
    `[f(a=${'['.repeat(70)}${']'.repeat(70)})]`,
  ].map((text): Fixture => ({ about: `malformed ${text.slice(0, 30)}`, format: 'pythonic', text, content: text })),
  {
    about: 'a wrong second one',
    format: 'pythonic',
    text: '[f(a=1), oops]',
    content: ', oops]',
    calls: [['f', '{"a": 1}']],
  },
];

const BY_REQUEST: Fixture[] = [
  {
    about: 'required',
    format: 'json_array',
    text: ' [{"name":"f","parameters":{"a":1}},{"name":"g","parameters":{}}] ',
    content: '',
    calls: [
      ['f', '{"a": 1}'],
      ['g', '{}'],
    ],
  },
  {
    about: 'required, not parallel',
    format: 'json_array',
    overrides: { parallelToolCalls: false },
    text: '[{"name":"f","parameters":{}},',
    content: '',
    calls: [['f', '{}']],
  },
  {
    about: 'required, cut off after a call',
    format: 'json_array',
    text: '[{"name":"f","parameters":{}}',
    content: '',
    calls: [['f', '{}']],
  },
  { about: 'required, cut off in a name', format: 'json_array', text: '[{"name":"f', content: '[{"name":"f' },
  { about: 'required, nothing', format: 'json_array', text: '', content: '' },
  { about: 'required, an unexpected text', format: 'json_array', text: 'no', content: 'no' },
  {
    about: 'required, cut off in the arguments',
    format: 'json_array',
    text: '[{"name":"f","parameters":{"a":[1',
    content: '[{"name":"f","parameters":{"a":[1',
  },
  { about: 'named', format: 'named', text: ' {"a":1,"b":[ ]}\n', content: '', calls: [['f', ' {"a":1,"b":[ ]}\n']] },
  { about: 'named, half of an object', format: 'named', text: '{"a":', content: '{"a":' },
  { about: 'named, no object', format: 'named', text: '"a"', content: '"a"' },
  { about: 'named, blank', format: 'named', text: ' \n', content: '', calls: [['f', '{}']] },
];

const FIXTURES = { PLAIN, REASONING, HERMES, QWEN_XML, LLAMA, MISTRAL, PYTHONIC, BY_REQUEST };
const ALL = Object.values(FIXTURES).flat();
const named = (calls: [string, string][] = []) =>
  calls.map(([name, args], index) => ({ id: `id${index}`, name, arguments: args }));
const settingsOf = (fixture: Fixture) => options(fixture.format, fixture.overrides);

describe.each(Object.entries(FIXTURES))('%s', (_, fixtures) => {
  test.each(fixtures.map((fixture) => [fixture.about, fixture] as const))('%s', (__, fixture) => {
    const parser = new ReplyParser(settingsOf(fixture));
    parser.push(fixture.text);
    expect(parser.result()).toEqual({
      content: fixture.content,
      reasoning: fixture.reasoning ?? null,
      toolCalls: named(fixture.calls),
    });
  });

  test.each(fixtures.map((fixture) => [fixture.about, fixture] as const))(
    'streamed, character by character: %s',
    (__, fixture) => {
      const { sum } = stream(settingsOf(fixture), fixture.text.split(''));
      expect(sum).toEqual({
        content: fixture.content ?? '',
        reasoning: fixture.reasoning ?? '',
        toolCalls: named(fixture.calls),
      });
    },
  );
});

describe('a reply that was cut off', () => {
  const CUTS: [ToolFormat, string, { content: string | null; calls: [string, string][] }][] = [
    ['json_array', '[{"name":"f","parameters":{"a":[1', { content: '', calls: [['f', '{"a": [1']] }],
    ['json_array', '[{"name":"f","parameters":{}},{"na', { content: '', calls: [['f', '{}']] }],
    ['json_array', '[{"name":"f', { content: '', calls: [] }],
    ['json_array', '[', { content: '', calls: [] }],
    ['named', '{"a":', { content: '', calls: [['f', '{"a":']] }],
    ['named', ' \n', { content: '', calls: [] }],
    ['mistral', '[TOOL_CALLS][{"name": "f"', { content: null, calls: [['f', '']] }],
    ['hermes', 'a<tool_call>{"name": "f", "arguments": {"a": "b', { content: 'a', calls: [['f', '{"a": "b']] }],
    ['hermes', `${call(F)}<tool_call>{"na`, { content: null, calls: [['f', '{"a": 1}']] }],
    ['hermes', 'a<tool_call>{"na', { content: 'a<tool_call>{"na', calls: [] }],
    [
      'qwen_xml',
      '<function=f><parameter=unit>c</parameter><parameter=city>a',
      { content: null, calls: [['f', '{"unit": "c"']] },
    ],
    ['mistral', '[TOOL_CALLS]f[ARGS]{"a": ', { content: null, calls: [['f', '{"a": ']] }],
    ['llama3_json', '{"name": "f", "parameters": {"a"', { content: null, calls: [['f', '{"a"']] }],
    ['pythonic', '[f(a=1', { content: '[f(a=1', calls: [] }],
  ];
  test.each(CUTS)('%s: %s gives the same in one piece and streamed', (format, text, { content, calls }) => {
    for (const pieces of [[text], text.split('')]) {
      const parser = new ReplyParser(options(format));
      const sum = { content: '', toolCalls: [] as ParsedReply['toolCalls'] };
      for (const delta of [...pieces.map((piece) => parser.push(piece)), parser.end({ isCutOff: true })]) {
        sum.content += delta.content;
        for (const { index, id, name, arguments: more } of delta.toolCalls) {
          if (id !== undefined && name !== undefined) sum.toolCalls.push({ id, name, arguments: '' });
          sum.toolCalls[index]!.arguments += more;
        }
      }
      const result = parser.result();
      expect(result).toMatchObject({ content, toolCalls: named(calls) });
      expect(sum).toEqual({ content: content ?? '', toolCalls: named(calls) });
      expect(result.isCutOff ?? false).toBe(calls.length > 0 || format === 'json_array' || format === 'named');
    }
  });
  test('is cut off nowhere else', () => {
    const parser = new ReplyParser(options('hermes'));
    parser.push(call(F));
    parser.end({ isCutOff: true });
    expect(parser.result()).toEqual({ content: null, reasoning: null, toolCalls: named([['f', '{"a": 1}']]) });
  });
});

describe('for any pieces', () => {
  test('the deltas add up to the same, and so does the result', () => {
    fc.assert(
      fc.property(fc.constantFrom(...ALL), fc.array(fc.nat(), { maxLength: 12 }), (fixture, cuts) => {
        const whole = stream(settingsOf(fixture), [fixture.text]);
        const pieces = cutAt(fixture.text, cuts);
        const { sum, result } = stream(settingsOf(fixture), pieces);
        expect(sum).toEqual(whole.sum);
        expect(result).toEqual(whole.result);
      }),
      { numRuns: 3000 },
    );
  });

  test('every single cut of every fixture', () => {
    let numCuts = 0;
    for (const fixture of ALL) {
      const whole = stream(settingsOf(fixture), [fixture.text]);
      for (let at = 1; at < fixture.text.length; at++) {
        const cut = stream(settingsOf(fixture), [fixture.text.slice(0, at), fixture.text.slice(at)]);
        if (JSON.stringify([cut.sum, cut.result]) !== JSON.stringify([whole.sum, whole.result]))
          throw new Error(`${fixture.about}, cut after ${JSON.stringify(fixture.text.slice(0, at))}`);
        numCuts++;
      }
    }
    expect(numCuts).toBeGreaterThan(3000);
  });

  test('any text at all, in every format: no error, nothing depends on the pieces, nothing is sent twice', () => {
    const fragments = ALL.flatMap(({ text }) => text.split(/(?<=[<>{}[\]",:()])/));
    const text = fc
      .array(fc.oneof(fc.constantFrom(...fragments), fc.string()), { maxLength: 12 })
      .map((list) => list.join(''));
    const format = fc.constantFrom<ToolFormat | null>(
      null,
      'hermes',
      'qwen_xml',
      'llama3_json',
      'mistral',
      'pythonic',
      'json_array',
      'named',
    );
    fc.assert(
      fc.property(
        text,
        format,
        fc.constantFrom(null, INSIDE.reasoning, OUTSIDE.reasoning),
        fc.array(fc.nat()),
        (source, toolFormat, reasoning, cuts) => {
          const settings = options(toolFormat, { reasoning });
          const whole = stream(settings, [source]);
          const cut = stream(settings, cutAt(source, cuts));
          expect(cut.sum).toEqual(whole.sum);
          expect(cut.result).toEqual(whole.result);
          if (toolFormat === null && reasoning === null) expect(whole.sum.content).toBe(source);
          expect(cut.sum.toolCalls).toEqual(cut.result.toolCalls);
          for (const { arguments: json } of whole.result.toolCalls) expect(JSON.parse(json)).toBeInstanceOf(Object);
          for (const { arguments: json } of whole.result.toolCalls) expect(JSON.parse(json)).not.toBeInstanceOf(Array);
        },
      ),
      { numRuns: 2000 },
    );
  });
});

test('Hermes replies are read as a regular expression and JSON.parse read them', () => {
  const json = fc.oneof(
    {
      weight: 4,
      arbitrary: fc
        .record({
          name: fc.constantFrom('f', 'g'),
          arguments: fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }),
        })
        .map((value) => JSON.stringify(value)),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        '{"name": "f"}',
        '{"name": "f", "arguments": {}, "id": 7}',
        '{"arguments": {}}',
        '{',
        '',
        '{"name": "f"}}',
        '[]',
        'null',
        '{"name": 1}',
        "{'name': 'f'}",
      ),
    },
  );
  const block = fc
    .tuple(json, fc.constantFrom('', '\n', ' '), fc.constantFrom('', '\n', 'text'))
    .map(([body, space, after]) => `<tool_call>${space}${body}${space}</tool_call>${after}`);
  const reply = fc
    .tuple(fc.constantFrom('', ' ', 'Let me see. <'), fc.array(block, { maxLength: 3 }), fc.boolean())
    .map(([before, blocks, isCut]) => {
      const text = before + blocks.join('');
      return isCut ? text.replace(/<\/tool_call>[^<]*$/, '') : text;
    });
  let numWithCalls = 0;
  fc.assert(
    fc.property(reply, (text) => {
      fc.pre(!/"[^"]*<\/?tool_call>/.test(text)); // a regular expression is wrong here
      const parser = new ReplyParser(options('hermes'));
      parser.push(text);
      const { content, toolCalls } = parser.result();
      const read = toolCalls.map((call) => ({ name: call.name, arguments: JSON.parse(call.arguments) as unknown }));
      expect({ content, calls: read }).toEqual(naiveHermes(text));
      if (read.length > 0) numWithCalls++;
    }),
    { numRuns: 1000 },
  );
  expect(numWithCalls).toBeGreaterThan(100);
});

/** Literal implementation of the format's description. */
function naiveHermes(text: string): { content: string | null; calls: { name: string; arguments: unknown }[] } {
  const calls: { name: string; arguments: unknown }[] = [];
  const start = text.indexOf('<tool_call>');
  if (start < 0) return { content: text, calls };
  const before = text.slice(0, start);
  for (const match of text.matchAll(/<tool_call>([^]*?)<\/tool_call>|<tool_call>([^]*)/g)) {
    try {
      const { name, arguments: args = {} } = JSON.parse(match[1] ?? match[2] ?? '') as {
        name?: unknown;
        arguments?: unknown;
      };
      if (typeof name !== 'string') throw new SyntaxError('no name');
      calls.push({ name, arguments: args });
    } catch {
      // Not JSON, or null: text from here on.
      const lost = calls.length > 0 && before.trim() === '';
      return { content: (lost ? '' : before) + text.slice(match.index), calls };
    }
  }
  return { content: before.trim() === '' ? null : before, calls };
}

describe('streamed output', () => {
  const deltas = (format: ToolFormat, pieces: string[], overrides: Overrides = {}) =>
    stream(options(format, overrides), pieces).deltas;

  test('text is held back only while it may start a tag', () => {
    expect(deltas('hermes', ['Hi', ' <', 'tool', 'box> <tool', '_ca']).map(({ content }) => content)).toEqual([
      'Hi',
      ' ',
      '',
      '<toolbox> ',
      '',
      '<tool_ca',
    ]);
  });

  test('a call when it is whole', () => {
    const pieces = ['<tool_call>{"name": "f"', ', "arguments": {"te', 'xt": "a"', '}}', '\n</tool_call>'];
    expect(deltas('hermes', pieces).map(({ toolCalls }) => toolCalls)).toEqual([
      [],
      [],
      [],
      [],
      [{ index: 0, id: 'id0', name: 'f', arguments: '{"text": "a"}' }],
      [],
    ]);
  });

  test('a call arrives incrementally, if a constraint guarantees that it is complete', () => {
    const pieces = ['[{"name": "f"', ', "parameters": {"te', 'xt": "a', 'b\\u00', 'e9"', '}}', ']'];
    expect(deltas('json_array', pieces, CONSTRAINED).map(({ toolCalls }) => toolCalls)).toEqual([
      [],
      [{ index: 0, id: 'id0', name: 'f', arguments: '{"te' }],
      [{ index: 0, arguments: 'xt": "a' }],
      [{ index: 0, arguments: 'b' }],
      [{ index: 0, arguments: 'é"' }],
      [{ index: 0, arguments: '}' }],
      [],
      [],
    ]);
  });

  test('two calls can come at once', () => {
    expect(
      deltas('json_array', ['[{"name":"f","parameters":{}},{"name":"g","parameters":{"a":', '1}}]'], CONSTRAINED).map(
        ({ toolCalls }) => toolCalls,
      ),
    ).toEqual([
      [
        { index: 0, id: 'id0', name: 'f', arguments: '{}' },
        { index: 1, id: 'id1', name: 'g', arguments: '{"a": ' },
      ],
      [{ index: 1, arguments: '1}' }],
      [],
    ]);
  });

  test('the end of the reasoning and the first content can come at once', () => {
    expect(deltas('hermes', ['a', 'b</think>c', 'd'], INSIDE)).toEqual([
      { content: '', reasoning: 'a', toolCalls: [] },
      { content: 'c', reasoning: 'b', toolCalls: [] },
      { content: 'd', reasoning: '', toolCalls: [] },
      { content: '', reasoning: '', toolCalls: [] },
    ]);
  });

  test('chosen arguments come with the name first', () => {
    expect(deltas('named', ['{"a"', ':1}'], CONSTRAINED).map(({ toolCalls }) => toolCalls)).toEqual([
      [{ index: 0, id: 'id0', name: 'f', arguments: '{"a"' }],
      [{ index: 0, arguments: ':1}' }],
      [],
    ]);
  });
});

test('a long reply is read in linear time', () => {
  const parser = new ReplyParser(options('pythonic'));
  const started = performance.now();
  parser.push('[f(a="');
  for (let index = 0; index < 50_000; index++) parser.push('word ');
  parser.push('")]');
  expect(parser.result().toolCalls[0]?.arguments).toHaveLength('{"a": ""}'.length + 250_000);
  expect(performance.now() - started).toBeLessThan(2_000); // about 60 ms; a quadratic reader takes minutes
});

test('misuse is an error', () => {
  const parser = new ReplyParser(options(null));
  parser.end();
  expect(() => parser.push('x')).toThrow(/after end/);
  const { namedTool: _, ...withoutName } = options('named');
  expect(() => new ReplyParser(withoutName).push('{}')).toThrow(/namedTool/);
});

function cutAt(text: string, cuts: readonly number[]): string[] {
  const places = [...new Set(cuts.map((cut) => cut % (text.length + 1)))].sort((a, b) => a - b);
  return [0, ...places].map((from, index) => text.slice(from, places[index] ?? text.length));
}
