/** Hostile chat requests: done as requested, they would take a service's time, memory or stack. */

export interface HostileRequest {
  /** Body of `POST /v1/chat/completions`, as text. Generated when it is sent: some are megabytes. */
  readonly body: () => string;
  /** `refused`: a 4xx. `answered`: valid, and cheap. `either`: a limit or the answer, whichever comes first. */
  readonly ends: 'refused' | 'answered' | 'either';
}

const range = (length: number) => Array.from({ length }, (_, index) => index);
const messages = [{ role: 'user', content: 'Say something.' }];
const tool = (name: string, parameters: object) => ({ type: 'function', function: { name, parameters } });

/** Text of nested JSON that no serialiser could write. */
const nested = (levels: number, open: string, inner: string, close: string) =>
  open.repeat(levels) + inner + close.repeat(levels);

function request(ends: HostileRequest['ends'], fields: () => object): HostileRequest {
  return { ends, body: () => JSON.stringify({ messages, max_tokens: 4, ...fields() }) };
}

/** A request with a field whose value is JSON text. */
function raw(ends: HostileRequest['ends'], field: string, value: () => string): HostileRequest {
  return {
    ends,
    body: () => `{"messages":${JSON.stringify(messages)},"max_tokens":4,${JSON.stringify(field)}:${value()}}`,
  };
}

const template = (source: () => string, ends: HostileRequest['ends'] = 'refused') =>
  request(ends, () => ({ chat_template: source() }));
const regex = (pattern: () => string, ends: HostileRequest['ends'] = 'refused') =>
  request(ends, () => ({ structured_outputs: { regex: pattern() } }));
const schema = (make: () => unknown, ends: HostileRequest['ends'] = 'refused') =>
  request(ends, () => ({ structured_outputs: { json: make() } }));
const grammar = (source: () => string, ends: HostileRequest['ends'] = 'refused') =>
  request(ends, () => ({ structured_outputs: { grammar: source() } }));

export const HOSTILE_REQUESTS: Readonly<Record<string, HostileRequest>> = {
  'template: range of 10^9': template(() => '{% for i in range(1000000000) %}x{% endfor %}'),
  'template: loops in each other': template(
    () => '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}',
  ),
  'template: a string doubled 40 times': template(
    () => `{% set ns = namespace(s="xxxxxxxx") %}${'{% set ns.s = ns.s + ns.s %}'.repeat(40)}{{ ns.s }}`,
  ),
  'template: 10 MB of output': template(
    () =>
      '{% for i in range(100000) %}0123456789012345678901234567890123456789012345678901234567890123456789{% endfor %}',
  ),
  'template: 20,000 parentheses': template(() => `{{ ${'('.repeat(20_000)}1${')'.repeat(20_000)} }}`),
  'template: 240 KB of spaces': template(() => `{% set a = 1 ${' '.repeat(240_000)}%}a`, 'either'),
  'template: a megabyte': template(() => 'x'.repeat(1_000_000)),
  'template: macro recursion': template(() => '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}'),
  'template: the constructor': template(() => '{{ "".constructor.constructor("return process")() }}', 'either'),

  'regex: a quantifier on a quantifier': regex(() => '(a|aa)*{1000}'),
  'regex: nested stars, 1,000 times': regex(() => '((a|aa)*){1000}', 'either'),
  'regex: nested plus': regex(() => '(a+)+b', 'answered'),
  'regex: 2^30 states': regex(() => '[ab]*a[ab]{30}', 'either'),
  'regex: repetition to the third': regex(() => '((x{1,1000}){1,1000}){1,1000}', 'either'),
  'regex: 10^9 times': regex(() => 'a{1000000000}'),
  'regex: 100,000 characters': regex(() => 'ab|'.repeat(33_333)),
  'regex: 200,000 groups in each other': regex(() => '('.repeat(200_000) + ')'.repeat(200_000)),
  'regex: look-around': regex(() => '(?=a)b'),

  'schema: 5,000 references in a chain': schema(() => ({
    $ref: '#/$defs/d0',
    $defs: Object.fromEntries(range(5000).map((index) => [`d${index}`, { $ref: `#/$defs/d${index + 1}` }])),
  })),
  'schema: 5,000 deep': raw(
    'refused',
    'structured_outputs',
    () => `{"json":${nested(5000, '{"items":', 'true', '}')}}`,
  ),
  'schema: a reference to itself': schema(() => ({ $ref: '#' })),
  'schema: an enum of 10^5 values': schema(() => ({ enum: range(100_000) })),
  'schema: 10,000 required keys': schema(() => {
    const properties = Object.fromEntries(range(10_000).map((index) => [`p${index}`, {}]));
    return { type: 'object', properties, required: Object.keys(properties) };
  }),
  'schema: 1,000 optional keys': schema(() => ({
    type: 'object',
    properties: Object.fromEntries(range(1000).map((index) => [`p${index}`, { type: 'string' }])),
  })),
  'schema: allOf of 20 anyOf pairs': schema(() => ({
    allOf: range(20).map((index) => ({
      anyOf: [{ properties: { [`a${index}`]: { type: 'null' } } }, { properties: { [`b${index}`]: { type: 'null' } } }],
    })),
  })),
  'schema: nothing satisfies it': schema(() => ({ type: 'integer', minimum: 5, maximum: 4 })),
  'schema: an unknown keyword that restricts': schema(() => ({ type: 'array', uniqueItems: true })),
  'schema: keys of the prototype': raw(
    'either',
    'structured_outputs',
    () => '{"json":{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"integer"}}}}',
  ),
  'schema: a remote reference': schema(() => ({ $ref: 'http://127.0.0.1:1/schema.json' })),
  'choice: 10^5 values': request('refused', () => ({ structured_outputs: { choice: range(100_000).map(String) } })),

  'grammar: 30,000 parentheses': grammar(() => `root ::= ${'('.repeat(30_000)}"a"${')'.repeat(30_000)}`),
  'grammar: 20,000 rules': grammar(
    () =>
      `root ::= r0\n${range(20_000)
        .map((index) => `r${index} ::= r${index + 1}`)
        .join('\n')}\nr20000 ::= "a"`,
  ),
  'grammar: repetition to the third': grammar(() => 'root ::= (("a"{1,1000}){1,1000}){1,1000}', 'either'),
  'grammar: no end': grammar(() => 'root ::= "a" root', 'either'),
  'grammar: no start': grammar(() => 'a ::= "b"'),
  'tag: no begin for a trigger': request('refused', () => ({
    response_format: {
      type: 'structural_tag',
      triggers: ['<x'],
      structures: [{ begin: '<y>', schema: {}, end: '</y>' }],
    },
  })),
  'tag: formats 5,000 deep': raw(
    'refused',
    'response_format',
    () => `{"type":"structural_tag","format":${nested(5000, '{"type":"star","content":', '{"type":"any_text"}', '}')}}`,
  ),

  'stop: a string of a megabyte': request('refused', () => ({ stop: ['x'.repeat(1_000_000)] })),
  'stop: 10^5 strings': request('refused', () => ({ stop: range(100_000).map(String) })),
  'stop_token_ids: 10^6': request('refused', () => ({ stop_token_ids: range(1_000_000) })),
  'bad_words: a megabyte': request('refused', () => ({ bad_words: range(100_000).map((index) => `word ${index}`) })),
  'allowed_token_ids: 10^6': request('refused', () => ({ allowed_token_ids: range(1_000_000) })),
  'logit_bias: out of the vocabulary': request('refused', () => ({ logit_bias: { 99999999: 1 } })),
  'logit_bias: 10^5 entries': request('refused', () => ({
    logit_bias: Object.fromEntries(range(100_000).map((index) => [index, 1])),
  })),
  'n: 10^9': request('refused', () => ({ n: 1_000_000_000 })),
  'n: 10^999': raw('refused', 'n', () => `1${'0'.repeat(999)}`),
  'temperature: NaN': raw('refused', 'temperature', () => 'NaN'),
  'temperature: 1e999': raw('refused', 'temperature', () => '1e999'),
  'max_tokens: 10^18': raw('refused', 'max_tokens', () => '1000000000000000000'),
  'seed: 100 digits': raw('refused', 'seed', () => '1'.repeat(100)),
  'top_logprobs: the whole vocabulary': request('refused', () => ({ logprobs: true, top_logprobs: -1 })),

  'body: 100,000 deep': raw('refused', 'metadata', () => nested(100_000, '[', '', ']')),
  'body: not closed': { ends: 'refused', body: () => '{"messages":[{"role":"user","content":"' },
  'body: beyond the limit': request('refused', () => ({ user: 'x'.repeat(9_000_000) })),
  'body: the prototype': raw('answered', '__proto__', () => '{"temperature":-1}'),
  'messages: 7 MB of text': request('refused', () => ({
    messages: [{ role: 'user', content: 'word '.repeat(1_400_000) }],
  })),
  'messages: 7 MB without a break': request('refused', () => ({
    messages: [{ role: 'user', content: 'x'.repeat(7_000_000) }],
  })),
  'messages: 50,000 of them': request('refused', () => ({
    messages: range(50_000).map((index) => ({ role: index % 2 ? 'assistant' : 'user', content: 'hi' })),
  })),
  'messages: lone surrogates and NUL': raw(
    'answered',
    'messages',
    () => String.raw`[{"role":"user","content":"\ud800 \u0000 \udfff"}]`,
  ),
  'messages: a part 5,000 deep': raw(
    'refused',
    'messages',
    () => `[{"role":"user","content":[{"type":"text","text":"x","y":${nested(5000, '[', '', ']')}}]}]`,
  ),
  'tools: 10,000': request('refused', () => ({
    tools: range(10_000).map((index) => tool(`f${index}`, { type: 'object' })),
    tool_choice: 'required',
  })),
  'tools: definitions that contradict': request('refused', () => ({
    tools: ['string', 'integer'].map((type) => tool(`f_${type}`, { $defs: { x: { type } }, $ref: '#/$defs/x' })),
    tool_choice: 'required',
  })),
  'tools: a schema that is a bomb': request('refused', () => ({
    tools: [tool('f', { type: 'object', properties: { x: { type: 'string', pattern: 'a{1000000000}' } } })],
    tool_choice: 'required',
  })),
  'chat_template_kwargs: 300 deep': raw('refused', 'chat_template_kwargs', () => `{"x":${nested(300, '[', '', ']')}}`),
};
