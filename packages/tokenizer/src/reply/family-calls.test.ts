import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ToolDescription } from '../contract/tool-description.ts';
import { ReplyParser, type ReplyParserOptions } from './reply-parser.ts';
import type { ParsedReply } from './reply-record.ts';
import { TOOL_FORMATS, type ModelToolFormat } from './tool-format.ts';

/** Calls in the chat templates of model families: rendered by transformers 4.57, parsed here. */

interface Written {
  format: ModelToolFormat;
  template: string;
  /** `get_weather` with ARGUMENTS. */
  one: string;
  /** `get_weather` of A, and `get_time`; null for templates that write only one call. */
  two: string | null;
  /** `get_time`, without arguments. */
  empty: string;
}

const ARGUMENTS = {
  city: 'Zürich "Nord"\nline',
  days: 3,
  ratio: 1.5,
  flag: true,
  tags: ['a', 'b "c"'],
  place: { x: 1.5, y: null },
};

// prettier-ignore
const WRITTEN: readonly Written[] = [
  { format: "hermes", template: "Qwen-Qwen3-0.6B", one: "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich \\\"Nord\\\"\\nline\", \"days\": 3, \"ratio\": 1.5, \"flag\": true, \"tags\": [\"a\", \"b \\\"c\\\"\"], \"place\": {\"x\": 1.5, \"y\": null}}}\n</tool_call>", two: "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"A\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>", empty: "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>" },
  { format: "hermes", template: "ibm-granite-granite-4.0", one: "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich \\\"Nord\\\"\\nline\", \"days\": 3, \"ratio\": 1.5, \"flag\": true, \"tags\": [\"a\", \"b \\\"c\\\"\"], \"place\": {\"x\": 1.5, \"y\": null}}}\n</tool_call>", two: "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"A\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>", empty: "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>" },
  { format: "qwen_xml", template: "Qwen3-Coder", one: "<tool_call>\n<function=get_weather>\n<parameter=city>\nZürich \"Nord\"\nline\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=ratio>\n1.5\n</parameter>\n<parameter=flag>\nTrue\n</parameter>\n<parameter=tags>\n[\"a\", \"b \\\"c\\\"\"]\n</parameter>\n<parameter=place>\n{\"x\": 1.5, \"y\": null}\n</parameter>\n</function>\n</tool_call>", two: "<tool_call>\n<function=get_weather>\n<parameter=city>\nA\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>", empty: "<tool_call>\n<function=get_time>\n</function>\n</tool_call>" },
  { format: "qwen_xml", template: "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", one: "<tool_call>\n<function=get_weather>\n<parameter=city>\nZürich \"Nord\"\nline\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=ratio>\n1.5\n</parameter>\n<parameter=flag>\nTrue\n</parameter>\n<parameter=tags>\n[\"a\", \"b \\\"c\\\"\"]\n</parameter>\n<parameter=place>\n{\"x\": 1.5, \"y\": null}\n</parameter>\n</function>\n</tool_call>", two: "<tool_call>\n<function=get_weather>\n<parameter=city>\nA\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>", empty: "<tool_call>\n<function=get_time>\n</function>\n</tool_call>" },
  { format: "qwen_xml", template: "qwen3_5_think", one: "<tool_call>\n<function=get_weather>\n<parameter=city>\nZürich \"Nord\"\nline\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=ratio>\n1.5\n</parameter>\n<parameter=flag>\nTrue\n</parameter>\n<parameter=tags>\n[\"a\", \"b \\\"c\\\"\"]\n</parameter>\n<parameter=place>\n{\"x\": 1.5, \"y\": null}\n</parameter>\n</function>\n</tool_call>", two: "<tool_call>\n<function=get_weather>\n<parameter=city>\nA\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>", empty: "<tool_call>\n<function=get_time>\n</function>\n</tool_call>" },
  { format: "llama3_json", template: "llama3_1", one: "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Zürich \\\"Nord\\\"\\nline\", \"days\": 3, \"ratio\": 1.5, \"flag\": true, \"tags\": [\"a\", \"b \\\"c\\\"\"], \"place\": {\"x\": 1.5, \"y\": null}}}", two: null, empty: "{\"name\": \"get_time\", \"parameters\": {}}" },
  { format: "mistral", template: "Mistral-Small-3.2-24B-Instruct-2506", one: "[TOOL_CALLS]get_weather[CALL_ID]call00001[ARGS]{\"city\": \"Zürich \\\"Nord\\\"\\nline\", \"days\": 3, \"ratio\": 1.5, \"flag\": true, \"tags\": [\"a\", \"b \\\"c\\\"\"], \"place\": {\"x\": 1.5, \"y\": null}}", two: "[TOOL_CALLS]get_weather[CALL_ID]call00001[ARGS]{\"city\": \"A\"}[TOOL_CALLS]get_time[CALL_ID]call00002[ARGS]{}", empty: "[TOOL_CALLS]get_time[CALL_ID]call00001[ARGS]{}" },
  { format: "mistral", template: "mistralai-Mistral-Nemo-Instruct-2407", one: "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich \\\"Nord\\\"\\nline\", \"days\": 3, \"ratio\": 1.5, \"flag\": true, \"tags\": [\"a\", \"b \\\"c\\\"\"], \"place\": {\"x\": 1.5, \"y\": null}}, \"id\": \"call00001\"}]", two: "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"A\"}, \"id\": \"call00001\"}, {\"name\": \"get_time\", \"arguments\": {}, \"id\": \"call00002\"}]", empty: "[TOOL_CALLS][{\"name\": \"get_time\", \"arguments\": {}, \"id\": \"call00001\"}]" },
  { format: "pythonic", template: "lfm2_2_5", one: "<|tool_call_start|>[get_weather(city='Zürich \"Nord\"\nline', days=3, ratio=1.5, flag=True, tags=['a', 'b \"c\"'], place={\"x\": 1.5, \"y\": null})]<|tool_call_end|>", two: "<|tool_call_start|>[get_weather(city='A'), get_time()]<|tool_call_end|>", empty: "<|tool_call_start|>[get_time()]<|tool_call_end|>" },
  { format: "kimi_k2", template: "moonshotai-Kimi-K2", one: "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"Zürich \\\"Nord\\\"\\nline\", \"days\": 3, \"ratio\": 1.5, \"flag\": true, \"tags\": [\"a\", \"b \\\"c\\\"\"], \"place\": {\"x\": 1.5, \"y\": null}}<|tool_call_end|><|tool_calls_section_end|>", two: "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{\"city\": \"A\"}<|tool_call_end|><|tool_call_begin|>functions.get_time:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", empty: "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_time:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>" },
  { format: "glm", template: "GLM-4.6", one: "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Zürich \"Nord\"\nline</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n<arg_key>ratio</arg_key>\n<arg_value>1.5</arg_value>\n<arg_key>flag</arg_key>\n<arg_value>true</arg_value>\n<arg_key>tags</arg_key>\n<arg_value>[\"a\", \"b \\\"c\\\"\"]</arg_value>\n<arg_key>place</arg_key>\n<arg_value>{\"x\": 1.5, \"y\": null}</arg_value>\n</tool_call>", two: "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>A</arg_value>\n</tool_call>\n<tool_call>get_time\n</tool_call>", empty: "<tool_call>get_time\n</tool_call>" },
  { format: "glm", template: "GLM-4.7-Flash", one: "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Zürich \"Nord\"\nline</arg_value><arg_key>days</arg_key><arg_value>3</arg_value><arg_key>ratio</arg_key><arg_value>1.5</arg_value><arg_key>flag</arg_key><arg_value>true</arg_value><arg_key>tags</arg_key><arg_value>[\"a\", \"b \\\"c\\\"\"]</arg_value><arg_key>place</arg_key><arg_value>{\"x\": 1.5, \"y\": null}</arg_value></tool_call>", two: "<tool_call>get_weather<arg_key>city</arg_key><arg_value>A</arg_value></tool_call><tool_call>get_time</tool_call>", empty: "<tool_call>get_time</tool_call>" },
  { format: "nemotron", template: "NVIDIA-Nemotron-Nano-v2", one: "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich \\\"Nord\\\"\\nline\", \"days\": 3, \"ratio\": 1.5, \"flag\": true, \"tags\": [\"a\", \"b \\\"c\\\"\"], \"place\": {\"x\": 1.5, \"y\": null}}}]</TOOLCALL>", two: "<TOOLCALL>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"A\"}}, {\"name\": \"get_time\", \"arguments\": {}}]</TOOLCALL>", empty: "<TOOLCALL>[{\"name\": \"get_time\", \"arguments\": {}}]</TOOLCALL>" },
  { format: "minimax_m2", template: "MiniMax-M2", one: "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Zürich \"Nord\"\nline</parameter>\n<parameter name=\"days\">3</parameter>\n<parameter name=\"ratio\">1.5</parameter>\n<parameter name=\"flag\">true</parameter>\n<parameter name=\"tags\">[\"a\", \"b \\\"c\\\"\"]</parameter>\n<parameter name=\"place\">{\"x\": 1.5, \"y\": null}</parameter>\n</invoke>\n</minimax:tool_call>", two: "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">A</parameter>\n</invoke>\n<invoke name=\"get_time\">\n</invoke>\n</minimax:tool_call>", empty: "<minimax:tool_call>\n<invoke name=\"get_time\">\n</invoke>\n</minimax:tool_call>" },
  { format: "harmony", template: "gptoss", one: " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Zürich \\\"Nord\\\"\\nline\", \"days\": 3, \"ratio\": 1.5, \"flag\": true, \"tags\": [\"a\", \"b \\\"c\\\"\"], \"place\": {\"x\": 1.5, \"y\": null}}<|call|>", two: null, empty: " to=functions.get_time<|channel|>commentary json<|message|>{}<|call|>" },
  { format: "cohere", template: "CohereForAI-c4ai-command-r7b-12-2024-tool_use", one: "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"Zürich \\\"Nord\\\"\\nline\", \"days\": 3, \"ratio\": 1.5, \"flag\": true, \"tags\": [\"a\", \"b \\\"c\\\"\"], \"place\": {\"x\": 1.5, \"y\": null}}}\n]<|END_ACTION|>", two: "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", \"parameters\": {\"city\": \"A\"}},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"get_time\", \"parameters\": {}}\n]<|END_ACTION|>", empty: "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_time\", \"parameters\": {}}\n]<|END_ACTION|>" },
  // The template teaches the list but writes no calls.
  { format: "granite", template: "granite-3.3", one: `<|tool_call|>[{"name": "get_weather", "arguments": ${JSON.stringify(ARGUMENTS)}}]`, two: '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "A"}}, {"name": "get_time", "arguments": {}}]', empty: '<|tool_call|>[{"name": "get_time", "arguments": {}}]' },
  { format: "cohere", template: "command-r-plus", one: `Action: \`\`\`json\n[\n    {\n        "tool_name": "get_weather",\n        "parameters": ${JSON.stringify(ARGUMENTS, null, 4)}\n    }\n]\`\`\``, two: 'Action: ```json\n[{"tool_name": "get_weather", "parameters": {"city": "A"}}, {"tool_name": "get_time", "parameters": {}}]```', empty: 'Action:```json\n[{"tool_name": "get_time", "parameters": {}}]\n```' },
];

const NAMES = ['city', 'days', 'ratio', 'flag', 'tags', 'place'];
const PROPERTIES = {
  city: { type: 'string' },
  days: { type: 'integer' },
  ratio: { type: 'number' },
  flag: { type: 'boolean' },
  tags: { type: 'array', items: { type: 'string' } },
  place: { $ref: '#/$defs/place' },
};
const TOOLS: ToolDescription[] = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      parameters: {
        type: 'object',
        properties: PROPERTIES,
        $defs: { place: { properties: { x: { type: 'number' } } } },
      },
    },
  },
  { type: 'function', function: { name: 'get_time', parameters: { type: 'object', properties: {} } } },
];

interface Told {
  content: string;
  reasoning: string;
  calls: [name: string, value: unknown][];
}

/** Parses the reply in deltas and checks their sum against the whole. */
function read(format: ModelToolFormat, pieces: readonly string[], fields: Partial<ReplyParserOptions> = {}): Told {
  const parser = new ReplyParser({
    tools: TOOLS,
    toolFormat: format,
    parallelToolCalls: true,
    reasoning: null,
    toolCallId: (index) => `id${index}`,
    ...fields,
  });
  const sum = { content: '', reasoning: '', toolCalls: [] as ParsedReply['toolCalls'] };
  for (const delta of [...pieces.map((piece) => parser.push(piece)), parser.end()]) {
    sum.content += delta.content;
    sum.reasoning += delta.reasoning;
    for (const { index, id, name, arguments: more } of delta.toolCalls) {
      if (id !== undefined && name !== undefined) sum.toolCalls.push({ id, name, arguments: '' });
      sum.toolCalls[index]!.arguments += more;
    }
  }
  const { content, reasoning, toolCalls } = parser.result();
  expect(sum).toEqual({ content: content ?? '', reasoning: reasoning ?? '', toolCalls });
  return {
    content: sum.content,
    reasoning: sum.reasoning,
    calls: toolCalls.map((call) => [call.name, JSON.parse(call.arguments)]),
  };
}

/** Parses the reply in one piece, and checks every cut of it. */
function readEverywhere(format: ModelToolFormat, text: string, fields?: Partial<ReplyParserOptions>): Told {
  const whole = read(format, [text], fields);
  for (let at = 1; at < text.length; at++)
    expect(read(format, [text.slice(0, at), text.slice(at)], fields), text.slice(0, at)).toEqual(whole);
  expect(read(format, text.split(''), fields)).toEqual(whole);
  return whole;
}

const called = (calls: Told['calls'], content = ''): Told => ({ content, reasoning: '', calls });

describe.each(WRITTEN)('$format: the calls that the template of $template writes', ({ format, one, two, empty }) => {
  test('are read as they were, whole and at every cut', () => {
    expect(readEverywhere(format, one)).toEqual(called([['get_weather', ARGUMENTS]]));
    expect(readEverywhere(format, empty)).toEqual(called([['get_time', {}]]));
    if (two !== null) {
      expect(readEverywhere(format, two)).toEqual(
        called([
          ['get_weather', { city: 'A' }],
          ['get_time', {}],
        ]),
      );
      expect(readEverywhere(format, two, { parallelToolCalls: false })).toEqual(
        called([['get_weather', { city: 'A' }]]),
      );
    }
  });

  test('cut off at any place are no calls, or a partial call', () => {
    const wrong: string[] = [];
    for (let at = 0; at < one.length; at++) {
      const parser = new ReplyParser({
        tools: TOOLS,
        toolFormat: format,
        parallelToolCalls: true,
        reasoning: null,
        toolCallId: (index) => `id${index}`,
      });
      parser.push(one.slice(0, at));
      parser.end({ isCutOff: true });
      const { toolCalls, isCutOff = false } = parser.result();
      const isWhole = () => toolCalls.every((call) => isDeepStrictEqual(JSON.parse(call.arguments), ARGUMENTS));
      if (!isCutOff && !isWhole()) wrong.push(one.slice(0, at));
    }
    expect(wrong).toEqual([]);
  });

  test('after text, which is content', () => {
    if (format === 'llama3_json' || format === 'harmony') return; // these start a reply
    expect(readEverywhere(format, `Let me see.\n${empty}`)).toEqual(called([['get_time', {}]], 'Let me see.\n'));
  });
});

test('every format has calls that a template writes', () => {
  expect(new Set(WRITTEN.map(({ format }) => format))).toEqual(new Set(Object.keys(TOOL_FORMATS)));
});

test.each(Object.entries(TOOL_FORMATS))('%s: the example', (format, example) => {
  const [first] = read(format as ModelToolFormat, [example], {
    tools: [{ type: 'function', function: { name: 'f', parameters: { properties: { a: { type: 'integer' } } } } }],
  }).calls;
  expect(first).toEqual(['f', { a: 1 }]);
});

const TEXTS = {
  qwen_xml: (fields: [string, string][]) =>
    `<tool_call>\n<function=get_weather>\n${fields.map(([key, value]) => `<parameter=${key}>\n${value}\n</parameter>\n`).join('')}</function>\n</tool_call>`,
  glm: (fields: [string, string][]) =>
    `<tool_call>get_weather\n${fields.map(([key, value]) => `<arg_key>${key}</arg_key>\n<arg_value>${value}</arg_value>\n`).join('')}</tool_call>`,
  minimax_m2: (fields: [string, string][]) =>
    `<minimax:tool_call>\n<invoke name="get_weather">\n${fields.map(([key, value]) => `<parameter name="${key}">${value}</parameter>\n`).join('')}</invoke>\n</minimax:tool_call>`,
} as const;

describe.each(Object.entries(TEXTS))('%s: values', (name, write) => {
  const format = name as keyof typeof TEXTS;

  test.each([
    'a </parameter> b',
    '</arg_value>',
    '</function>',
    '</invoke> </tool_call> x',
    '<parameter=other> <parameter name="x"> <arg_key>',
    '</parameter></parameter>',
    ' two\n\nlines ',
    '{"a": [}',
    '',
  ])('with tags of the format in them (%j) stay unchanged', (value) => {
    expect(
      readEverywhere(
        format,
        write([
          ['city', value],
          ['days', '2'],
        ]),
      ),
    ).toEqual(called([['get_weather', { city: value, days: 2 }]]));
    expect(readEverywhere(format, write([['city', value]]))).toEqual(called([['get_weather', { city: value }]]));
  });

  test.each<[string, string, unknown]>([
    ['tags', "['a', 'b \"c\"', None, True]", ['a', 'b "c"', null, true]],
    ['tags', "('a',)", ['a']],
    ['place', "{'x': 1.50, 'y': {'z': [1, 2]}}", { x: 1.5, y: { z: [1, 2] } }],
    ['tags', "['a'", "['a'"],
    ['place', '{x: 1}', '{x: 1}'],
    ['flag', 'True', true],
    ['days', ' 7 ', 7],
  ])('of %s in the notation of Python: %s', (key, value, expected) => {
    expect(readEverywhere(format, write([[key, value]]))).toEqual(called([['get_weather', { [key]: expected }]]));
  });

  test('given twice are no call', () => {
    const text = write([
      ['city', 'a'],
      ['city', 'b'],
    ]);
    expect(readEverywhere(format, text)).toEqual({ content: text, reasoning: '', calls: [] });
  });

  test('any value: the streamed text parses', () => {
    const value = fc.oneof(
      fc.string(),
      fc.constantFrom(
        '</parameter>',
        '</function>',
        '</arg_value>',
        '</invoke>',
        '</tool_call>',
        '<parameter=city>',
        "['a'",
        '{"a": 1}',
      ),
    );
    const fields = fc.array(
      fc.tuple(
        fc.constantFrom(...NAMES),
        fc.array(value, { maxLength: 3 }).map((parts) => parts.join('')),
      ),
      { maxLength: 4 },
    );
    fc.assert(
      fc.property(fields, fc.nat(), (given, cut) => {
        const text = write(given);
        const at = cut % (text.length + 1);
        expect(read(format, [text.slice(0, at), text.slice(at)])).toEqual(read(format, [text]));
      }),
      { numRuns: 300 },
    );
  });
});

describe('kimi_k2: ids', () => {
  const call = (id: string) => `<|tool_call_begin|>${id}<|tool_call_argument_begin|>{}<|tool_call_end|>`;
  const ids = (text: string) => {
    const parser = new ReplyParser({
      tools: TOOLS,
      toolFormat: 'kimi_k2',
      parallelToolCalls: true,
      reasoning: null,
      toolCallId: (index) => `id${index}`,
    });
    parser.push(text);
    return parser.result().toolCalls.map(({ id, name }) => [id, name]);
  };

  test('are those of the reply, which its template writes again', () => {
    expect(
      ids(`<|tool_calls_section_begin|>${call('functions.a.b:3')}${call('g:4')}<|tool_calls_section_end|>`),
    ).toEqual([
      ['functions.a.b:3', 'a.b'],
      ['g:4', 'g'],
    ]);
  });

  test('are replaced if the reply repeats one', () => {
    expect(ids(call('functions.f:0') + call('functions.f:0'))).toEqual([
      ['functions.f:0', 'f'],
      ['id1', 'f'],
    ]);
  });
});

describe('harmony', () => {
  const analysis = '<|channel|>analysis<|message|>Hm.<|end|>';
  const final = '<|start|>assistant<|channel|>final<|message|>Hello.';
  const call = '<|start|>assistant<|channel|>commentary to=functions.get_time <|constrain|>json<|message|>{}';

  test('channels are reasoning, content and calls', () => {
    expect(readEverywhere('harmony', analysis + final)).toEqual({ content: 'Hello.', reasoning: 'Hm.', calls: [] });
    expect(readEverywhere('harmony', analysis + call)).toEqual({
      content: '',
      reasoning: 'Hm.',
      calls: [['get_time', {}]],
    });
    expect(
      readEverywhere(
        'harmony',
        `${analysis}<|start|>assistant<|channel|>commentary<|message|>I look.<|end|>${call}<|call|>`,
      ),
    ).toEqual({
      content: 'I look.',
      reasoning: 'Hm.',
      calls: [['get_time', {}]],
    });
  });

  test('a reply without a header is content', () => {
    expect(readEverywhere('harmony', '{"a": 1}')).toEqual(called([], '{"a": 1}'));
  });

  test('calls stay text for a request without tools', () => {
    expect(read('harmony', [analysis + call], { callsAreText: true })).toEqual({
      content: '{}',
      reasoning: 'Hm.',
      calls: [],
    });
  });

  test('arguments that are no object are no call', () => {
    const text = '<|channel|>commentary to=functions.f<|message|>print(1)';
    expect(readEverywhere('harmony', text)).toEqual(called([], text));
  });
});

describe('cohere', () => {
  test('thoughts are reasoning, and the marks of a response no part of it', () => {
    const thoughts = '<|START_THINKING|>Hm.<|END_THINKING|>';
    expect(readEverywhere('cohere', `${thoughts}<|START_RESPONSE|>Hello.<|END_RESPONSE|>`)).toEqual({
      content: 'Hello.',
      reasoning: 'Hm.',
      calls: [],
    });
    expect(
      readEverywhere(
        'cohere',
        `${thoughts}<|START_ACTION|>[{"tool_name": "get_time", "parameters": {}}]<|END_ACTION|>`,
      ),
    ).toEqual({
      content: '',
      reasoning: 'Hm.',
      calls: [['get_time', {}]],
    });
  });

  test('the word Action without a call is text', () => {
    expect(readEverywhere('cohere', 'Action: none.')).toEqual(called([], 'Action: none.'));
  });
});

test('LFM2 writes objects if requested', () => {
  expect(
    readEverywhere('pythonic', '<|tool_call_start|>[{"name": "get_time", "arguments": {}}]<|tool_call_end|>'),
  ).toEqual(called([['get_time', {}]]));
});
