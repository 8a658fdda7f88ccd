import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allows, BYTES } from './testing/byte-test-vocabulary.ts';
import { ConstraintError } from './contract/constraint-error.ts';
import type { ConstraintSpec, WhitespaceOption } from './contract/constraint-spec.ts';
import { Constraints } from './constraints.ts';

let constraints: Constraints;
beforeAll(() => {
  constraints = new Constraints(BYTES);
});
afterAll(() => constraints.close());

const CAPPED = { kind: 'capped' } as const;
const schema = (value: unknown, whitespace: WhitespaceOption = CAPPED): ConstraintSpec => ({
  kind: 'json_schema',
  schema: value,
  whitespace,
  closesObjects: false,
});
const object = (whitespace: WhitespaceOption): ConstraintSpec => ({ kind: 'json_object', whitespace });
const regex = (pattern: string): ConstraintSpec => ({ kind: 'regex', pattern });
const choice = (...choices: string[]): ConstraintSpec => ({ kind: 'choice', choices });
const grammar = (source: string): ConstraintSpec => ({ kind: 'grammar', source });
const tag = (format: unknown): ConstraintSpec => ({ kind: 'structural_tag', tag: { type: 'structural_tag', format } });
const element = (begin: string, content: unknown, end: string | string[]) => ({ type: 'tag', begin, content, end });
const INTEGER = { type: 'json_schema', json_schema: { type: 'integer' } };
const ANY_TEXT = { type: 'any_text' };

function refusal(spec: ConstraintSpec): string {
  try {
    constraints.compile(spec).close();
  } catch (error) {
    if (error instanceof ConstraintError) return `${error.code}: ${error.message}`;
    throw error;
  }
  return 'compiled';
}

const DEFINITION_NAMES = [
  'Box[int]',
  'Box<int>',
  'a b',
  'é',
  '日本',
  'a/b',
  'a~b',
  '100%',
  '%41',
  '"q"',
  'a#b',
  '__proto__',
  'toString',
];

const LANGUAGES: readonly [name: string, spec: ConstraintSpec, allowed: string[], refused: string[]][] = [
  ['any JSON for `true`', schema(true), ['1', '"a"', '[1,{"a":null}]'], ['', 'a', '{"a"}', ' 1', '1 ']],
  ['any JSON for {}', schema({}), ['-0.5e3', String.raw`"\u00e9\n"`], ['01', String.raw`"\ud800"`]],
  // JSON.parse rounds 9223372036854775807 up: a reply must stay below the original.
  [
    'an integer of 64 bits',
    schema('{"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807}'),
    ['0', '-7', '9223372036854774000', '-9223372036854774000'],
    ['9223372036854775808', '-9223372036854775809', '9223372036854775999', '1e19', '10000000000000000000'],
  ],
  ['a bound of a number', schema({ type: 'number', exclusiveMaximum: 1e18 }), ['1.5', '-3'], ['1000000000000000000']],
  ['a schema as JSON text', schema('{"type":"boolean"}'), ['true'], ['1']],
  [
    'a key `__proto__`',
    schema(
      '{"type":"object","properties":{"__proto__":{"type":"integer"}},"required":["__proto__"],"additionalProperties":false}',
    ),
    ['{"__proto__":1}'],
    ['{}', '{"__proto__":"a"}'],
  ],
  [
    'keys of patterns `__proto__` and `toString`',
    schema(
      '{"type":"object","patternProperties":{"^__proto__$":{"type":"integer"},"^toString$":{"type":"string"}},"additionalProperties":false}',
    ),
    ['{"__proto__":1,"toString":"a"}'],
    ['{"__proto__":"a"}', '{"toString":1}'],
  ],
  ...DEFINITION_NAMES.flatMap((name): [string, ConstraintSpec, string[], string[]][] => {
    const escaped = name.replaceAll('~', '~0').replaceAll('/', '~1');
    return [escaped, encodeURIComponent(escaped)].flatMap((spelling) =>
      ['$defs', 'definitions'].map((keyword) => [
        `a definition named ${name}, as ${spelling} in ${keyword}`,
        schema({
          type: 'array',
          items: { $ref: `#/${keyword}/${spelling}` },
          [keyword]: Object.fromEntries([[name, { type: 'integer' }]]),
        }),
        ['[]', '[1]'],
        ['["a"]'],
      ]),
    );
  }),
  // zod 4 writes both; its expression uses look-ahead, so only the format is enforced.
  [
    'an expression with look-ahead, next to its format',
    schema({
      type: 'string',
      format: 'email',
      pattern: String.raw`^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$`,
    }),
    ['"a@b.co"'],
    ['"ab"'],
  ],
  [
    'an expression next to its format',
    schema({ type: 'string', format: 'email', pattern: '^a' }),
    ['"a@b.co"'],
    ['"b@b.co"', '"a"'],
  ],
  ['an object for json_object', object(CAPPED), ['{}', '{"a":[1]}', '{ "a": 1 }'], ['[]', '1', '{"a":1} ', 'null']],
  ['compact JSON', object({ kind: 'none' }), ['{"a":[1,2]}'], ['{"a": 1}', '{ }', '{"a":[1, 2]}']],
  [
    'a pattern of whitespace',
    object({ kind: 'pattern', pattern: ' ?' }),
    ['{"a": 1}', '{"a":1}'],
    ['{"a":  1}', '{\n}'],
  ],
  ['indented JSON', object(CAPPED), ['{\n  "a": [\n    1\n  ]\n}', '{"a":\t1}'], ['{\n\n"a":1}', '{"a":     1}']],
  ['an expression, anchored by itself', regex('a+b?'), ['a', 'aab'], ['', 'b', 'abb', 'xa']],
  ['anchors without an effect', regex('^a|b$'), ['a', 'b'], ['ab', '']],
  ['the empty expression', regex(''), [''], ['a']],
  ['an expression with slashes and line ends', regex(String.raw`/.\n//`), ['/x\n//'], ['/\n\n//']],
  ['digits of ECMAScript only', regex(String.raw`\d\w\s`), ['1a ', '1a\u00a0'], ['٣a ', '1é ']],
  ['classes without the operators of Rust', regex('[a&&b~~[]+'), ['a', 'b', '&&', '~['], ['e']],
  ['flags and names', regex('(?i)(?P<x>ab)(?<y>c.)'), ['aBCd'], ['abc\n']],
  ['one of the choices', choice('yes', 'no'), ['yes', 'no'], ['', 'y', 'yesno', 'maybe']],
  ['a choice that is a prefix of another', choice('a', 'ab'), ['a', 'ab'], ['abb']],
  ['any characters in choices', choice('é "\\\n\x7f\x01', ''), ['é "\\\n\x7f\x01', ''], ['é']],
  ['only the empty choice', choice(''), [''], ['a']],
  [
    'GBNF',
    grammar('root ::= "a" b* # comment\nb ::= [x-z] |\n ("(" b\n  ")")'),
    ['a', 'axy', 'a((x))'],
    ['', 'a(x', 'b'],
  ],
  [
    'GBNF with blanks that overlap names',
    grammar('root ::= "x" " LEFT"? " LIMIT"?'),
    ['x LIMIT', 'x LEFT LIMIT'],
    ['x L'],
  ],
  ['recursion that ends', grammar('root ::= "a" root | b*\nb ::= ("x" b)? "y"'), ['', 'aay', 'xxyyy'], ['x', 'ax']],
  ['an endless rule that nothing uses', grammar('root ::= "a"\nu ::= "b" u'), ['a'], ['b']],
  ['recursion that ends in Lark', grammar('start: ("a" start)? | ["b" start]\n'), ['', 'aba'], ['c']],
  ['left recursion', grammar('root ::= root "a" | "b"'), ['b', 'baa'], ['', 'a']],
  [
    'counted repetition',
    grammar('root ::= ("ab" | "c"){2,3} [^"\\x41-C]? .'),
    ['abcx', 'ccc\n', 'cccDA'],
    ['abx', 'cccccc'],
  ],
  ['rules named alike', grammar('root ::= a-b A-b a_b\na-b ::= "1"\nA-b ::= "2"\na_b ::= "3"'), ['123'], ['111']],
  ['Lark', grammar('start: "a" NUMBER\nNUMBER: /[0-9]+/'), ['a1'], ['a', 'a1x']],
  [
    'JSON in Lark',
    grammar('start: "%json" %json {"type":"array","x-guidance":{"lenient":true}}'),
    ['%json[ ]'],
    ['[]', '%json[      ]'],
  ],
  [
    'JSON in Lark with the separators that it names',
    grammar(
      'start: %json {"type":"array","items":{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]},"x-guidance":{"whitespace_flexible":false,"item_separator":", ","key_separator":": "}}',
    ),
    ['[]', '[{"a": 1, "b": [1, {"c": 2}]}, {"a": 0, "b": ""}]'],
    ['[ ]', '[{"a":1, "b": 2}]', '[{"a": 1,"b": 2}]', '[{"a": 1, "b": 2 }]'],
  ],
  [
    'JSON in Lark with separators that are none',
    grammar(
      'start: %json {"type":"array","items":{"type":"integer"},"x-guidance":{"whitespace_flexible":false,"item_separator":";"}}',
    ),
    ['[1, 2]', '[1,2]'],
    ['[1;2]'],
  ],
];

describe('the language of', () => {
  test.each(LANGUAGES)('%s', (_name, spec, allowed, refused) => {
    for (const text of allowed) expect(allows(constraints, spec, text), JSON.stringify(text)).toBe(true);
    for (const text of refused) expect(allows(constraints, spec, text), JSON.stringify(text)).toBe(false);
  });

  const call = tag(element('<call>', INTEGER, '</call>'));
  test.each(LANGUAGES)('%s, or of another', (_name, spec, allowed, refused) => {
    const either: ConstraintSpec = { kind: 'either', options: [spec, call] };
    for (const text of [...allowed, '<call>12</call>'])
      expect(allows(constraints, either, text), JSON.stringify(text)).toBe(true);
    for (const text of [...refused, '<call>a</call>', '<call>1</call>x'])
      expect(allows(constraints, either, text), JSON.stringify(text)).toBe(false);
  });

  test('one schema or another with the same beginning', () => {
    const called = {
      type: 'object',
      properties: { name: { const: 'f' }, arguments: { type: 'object' } },
      required: ['name', 'arguments'],
    };
    const own = {
      type: 'object',
      properties: { name: { type: 'string' }, age: { type: 'integer' } },
      required: ['name'],
      additionalProperties: false,
    };
    const options = [schema(own), schema(called), tag(element('[', INTEGER, ']'))];
    const either: ConstraintSpec = { kind: 'either', options };
    for (const text of ['{"name":"f","age":1}', '{"name":"f","arguments":{"a":1}}', '{"name":"g"}', '[1]'])
      expect(allows(constraints, either, text), text).toBe(true);
    for (const text of ['{"name":"g","arguments":{}}', '[]'])
      expect(allows(constraints, either, text), text).toBe(false);
  });
});

const legacy: ConstraintSpec = {
  kind: 'structural_tag',
  tag: {
    type: 'structural_tag',
    triggers: ['<f='],
    structures: [{ begin: '<f=a>', schema: { type: 'integer' }, end: '</f>' }],
  },
};
const anyTag = element('<x>', ANY_TEXT, '</x>');
const triggered = (options: object) => tag({ type: 'triggered_tags', triggers: ['<'], tags: [anyTag], ...options });
const separated = (options: object) =>
  tag({
    type: 'tags_with_separator',
    separator: ',',
    tags: [element('<', INTEGER, '>'), element('[', INTEGER, ']')],
    ...options,
  });

const TAGS: readonly [name: string, spec: ConstraintSpec, allowed: string[], refused: string[]][] = [
  ['structures', legacy, ['', 'hi <f>', 'x<f=a>1</f>', 'x<f=a>1</f>y<f=a>-2</f>z'], ['<f=', '<f=b>', '<f=a>x</f>', '<f=a>1']],
  ['structures as JSON text', { kind: 'structural_tag', tag: JSON.stringify(legacy.tag) }, ['<f=a>1</f>'], ['<f=a>']],
  ['a tag around text', tag(element('<a>', ANY_TEXT, '</a>')), ['<a></a>', '<a>x<y</a>'], ['<a>', '<a>x</a>y', 'x']],
  ['several ends', tag(element('<', ANY_TEXT, ['>', '/>'])), ['<a>', '<a/>'], ['<a', '<a>>']],
  ['no end', tag(element('<', ANY_TEXT, '')), ['<', '<a'], ['a']],
  ['an expression that could swallow the end', tag(element('<', { type: 'regex', pattern: '[a-z]*' }, 'end')), ['<abcend', '<endend'], ['<abc', '<endx']],
  ['text up to a constant', tag({ type: 'sequence', elements: [ANY_TEXT, { type: 'const_string', value: '!!' }, INTEGER] }), ['a!!1', '!!-7'], ['a!!', '!1']],
  ['alternatives', tag({ type: 'or', elements: [{ type: 'const_string', value: 'x' }, { type: 'grammar', grammar: 'root ::= "y"+' }] }), ['x', 'yy'], ['xy', '']],
  ['repetition', tag({ type: 'repeat', min: 1, max: 2, content: INTEGER_LIST() }), ['[1]', '[1][2]'], ['', '[1][2][3]']],
  ['optional', tag({ type: 'optional', content: INTEGER }), ['', '1'], ['a']],
  ['star and plus', tag({ type: 'sequence', elements: [repeated('star', 'a'), repeated('plus', 'b')] }), ['b', 'aab'], ['a', '']],
  ['triggered tags', triggered({}), ['', 'a', 'a<x>b</x>c<x></x>'], ['a<', '<x>', '<y>']],
  ['triggered tags, one at least', triggered({ at_least_one: true }), ['<x>a</x>', '<x>a</x>b<x>c</x>'], ['', 'a<x>a</x>']],
  ['triggered tags, the first ends', triggered({ stop_after_first: true }), ['a', 'a<x>b</x>'], ['<x>b</x>c', 'a<']],
  ['triggered tags, exactly one', triggered({ stop_after_first: true, at_least_one: true }), ['<x>b</x>'], ['a<x>b</x>', '<x>b</x>c']],
  ['triggered tags, some text never', triggered({ excludes: ['bad'] }), ['ba<x>bad</x>'], ['bad', 'a bad<x></x>']],
  ['triggered tags in a tag', tag(element('<t>', { type: 'triggered_tags', triggers: ['['], tags: [element('[', INTEGER, ']')] }, '</t>')), ['<t></t>', '<t>a[1]b[2]</t>'], ['<t>[</t>', '<t>[1]']],
  ['tags with a separator', separated({}), ['', '<1>', '<1>,[2],<3>'], ['<1>,', '<1]', 'a']],
  ['tags with a separator, one at least', separated({ at_least_one: true }), ['<1>'], ['']],
  ['tags with a separator, the first ends', separated({ stop_after_first: true }), ['', '[1]'], ['<1>,<2>']],
  ['text without some text', tag({ ...ANY_TEXT, excludes: ['bad', 'b\n'] }), ['good', 'ba d'], ['bad', 'a bad b', 'b\n']],
  ['short text', tag({ ...ANY_TEXT, max_chars: 3 }), ['', 'éöü'], ['abcd']],
  ['dispatch', tag({ type: 'dispatch', rules: [['<<', repeated('plus', 'a')], ['[[', INTEGER]], loop: true }), ['x<<aab[[1', ''], ['<<', '[[a']],
  ['dispatch once', tag({ type: 'dispatch', rules: [['<<', { type: 'const_string', value: 'ok' }]], loop: false }), ['a', 'a<<ok'], ['a<<ok.']],
  ['blanks in a schema', tag({ ...INTEGER_LIST(), max_whitespace_cnt: 2 }), ['[  1]', '[1]'], ['[   1]']],
]; // prettier-ignore

function INTEGER_LIST() {
  return { type: 'json_schema', json_schema: { type: 'array', items: { type: 'integer' }, minItems: 1, maxItems: 1 } };
}

function repeated(type: string, value: string) {
  return { type, content: { type: 'const_string', value } };
}

describe('a structural tag with', () => {
  test.each(TAGS)('%s', (_name, spec, allowed, refused) => {
    for (const text of allowed) expect(allows(constraints, spec, text), JSON.stringify(text)).toBe(true);
    for (const text of refused) expect(allows(constraints, spec, text), JSON.stringify(text)).toBe(false);
  });

  test('a token accepts that token and not its text', () => {
    const spec = tag({
      type: 'sequence',
      elements: [
        { type: 'const_string', value: 'a' },
        { type: 'token', token: '<|start|>' },
      ],
    });
    expect(allows(constraints, spec, 'a<|start|>')).toBe(false);
    using matcher = closing(constraints.compile(spec));
    expect([97, 256].map((token) => matcher.accept(token))).toEqual([true, true]);
    expect(matcher.isStopped).toBe(true);
  });
});

function closing<T extends { close(): void }>(closable: T): T & Disposable {
  return Object.assign(closable, { [Symbol.dispose]: () => closable.close() });
}

describe('refused with its reason:', () => {
  test.each<[ConstraintSpec, string]>([
    [schema(false), 'constraint.unsatisfiable: the schema `false` allows nothing'],
    [schema('{'), 'constraint.invalid: the schema is not JSON'],
    [schema(5), 'constraint.invalid: a schema must be an object or a boolean (#)'],
    [
      schema({ properties: { 'a/b': { not: {} } } }),
      'constraint.unsupported: the keyword `not` is not supported (#/properties/a~1b/not)',
    ],
    [
      schema({ $ref: 'https://example.com/s' }),
      'constraint.unsupported: only references inside the schema are supported (#/$ref)',
    ],
    [schema({ type: 'string', format: 'iri' }), 'constraint.unsupported: the format "iri" is not supported (#/format)'],
    [schema({ type: 'integer', minimum: 3, maximum: 2 }), 'constraint.unsatisfiable: Unsatisfiable schema'],
    [
      schema({ $ref: '#' }),
      'constraint.unsatisfiable: no finite text satisfies the schema: it is infinitely recursive (#)',
    ],
    [
      schema({ properties: { a: { type: 'array', items: { $ref: '#/properties/a' }, minItems: 1 } } }),
      'constraint.unsatisfiable: no finite text satisfies the schema: it is infinitely recursive (#/properties/a)',
    ],
    [
      schema({ $ref: '#/$defs/nope' }),
      'constraint.invalid: `$ref` names "#/$defs/nope", which does not exist (#/$ref)',
    ],
    ...[
      'root ::= "a" root',
      'root ::= ("a" root)+',
      'root ::= b\nb ::= "x" root',
      'root ::= "x" ("a" root){1,2} | root "b"',
      'start: "a" start',
      'start: a\na: "x" b\n b: "y" a | b',
      '?start: "a" start~1..2\n%ignore / /',
      'start: "x" %json {"type":"integer"} start',
    ].map((source): [ConstraintSpec, string] => [
      grammar(source),
      'constraint.unsatisfiable: no finite text matches rule',
    ]),
    [
      grammar('root ::= "a" | x\nx ::= "b" x'),
      'constraint.unsatisfiable: no finite text matches rule "x" of the grammar: it is infinitely recursive',
    ],
    [
      tag({ type: 'grammar', grammar: 'root ::= "a" root' }),
      'constraint.unsatisfiable: no finite text matches rule "root"',
    ],
    [
      schema({ type: 'string', format: 'password', pattern: '^(?=.*[0-9])' }),
      'constraint.unsupported: #/pattern: look-around is not supported',
    ],
    [schema({ const: 'x\ud83cy' }), 'constraint.invalid: a text has half a surrogate pair (#/const)'],
    [schema({ enum: ['a', { b: '\udf89' }] }), 'constraint.invalid: a text has half a surrogate pair (#/enum)'],
    [
      schema({ properties: { a: { required: ['\ud83c'] } } }),
      'constraint.invalid: a text has half a surrogate pair (#/properties/a/required)',
    ],
    [schema({ properties: { '\ud83c': {} } }), 'constraint.invalid: a text has half a surrogate pair (#/properties)'],
    [schema({ $ref: '#/\ud83c' }), 'constraint.invalid: a text has half a surrogate pair (#/$ref)'],
    [
      schema({ const: Number('1234567890123456789') }),
      'constraint.unsupported: numbers beyond ±9007199254740991 lose digits and are not supported (#/const), read as 1234567890123456800',
    ],
    [schema({ enum: ['a', { b: [2 ** 53] }] }), 'constraint.unsupported: numbers beyond ±9007199254740991'],
    [
      schema({ properties: { a: { maximum: Infinity } } }),
      'constraint.unsupported: numbers beyond ±9007199254740991 lose digits and are not supported (#/properties/a/maximum), read as Infinity',
    ],
    [schema('{"multipleOf": 1e25}'), 'constraint.unsupported: numbers beyond ±9007199254740991'],
    [schema({ enum: [] }), 'constraint.invalid: `enum` must be a nonempty list (#/enum)'],
    [schema({ type: 'string', pattern: 'a(?!b)' }), 'constraint.unsupported: #/pattern: look-around is not supported'],
    [schema({ minProperties: 2 }), 'constraint.unsupported: `minProperties` may be at most one more'],
    [object({ kind: 'pattern', pattern: '(' }), 'constraint.invalid: whitespace_pattern: a "(" without its ")"'],
    [regex(String.raw`\bx`), String.raw`constraint.unsupported: regex: the word boundary \b is not supported`],
    [regex('(a)\\1'), 'constraint.unsupported: regex: a back reference is not supported'],
    [regex('a**'), 'constraint.invalid: regex: two quantifiers'],
    [regex('(a|aa)*{1000}'), 'constraint.invalid: regex: two quantifiers'],
    [regex('a{2}{3}'), 'constraint.invalid: regex: two quantifiers'],
    [regex('a++'), 'constraint.unsupported: regex: a possessive quantifier'],
    [regex('a\0'), 'constraint.invalid: regex: NUL and lone surrogates'],
    [regex(String.raw`\u{d800}`), 'constraint.invalid: regex: U+d800 is not a character that a text can have'],
    [regex(String.raw`\u{dfff}`), 'constraint.invalid: regex: U+dfff is not a character that a text can have'],
    [regex('a^b'), 'constraint.unsupported: '],
    [regex(String.raw`[^\s\S]`), 'constraint.unsatisfiable: no text satisfies the constraint'],
    [choice(), 'constraint.invalid: `choice` must not be empty'],
    [choice('\ud800'), 'constraint.invalid: `choice` has half a surrogate pair'],
    [grammar(' \n'), 'constraint.invalid: `grammar` must not be blank'],
    [grammar('root ::= "a" b'), 'constraint.invalid: rule "root" of the grammar uses "b", which is not defined'],
    [grammar('a ::= "a"'), 'constraint.invalid: the grammar has no rule "root"'],
    [grammar('root ::= "a"\nroot ::= "b"'), 'constraint.invalid: line 2 of the grammar: rule "root" is defined twice'],
    [grammar('root ::= root'), 'constraint.unsatisfiable: no finite text matches rule "root" of the grammar'],
    [grammar('start: a'), 'constraint.invalid: '],
    [grammar('start: %json {"if":{}}'), 'constraint.unsupported: the keyword `if` is not supported (#/if)'],
    [
      tag({ type: 'qwen_xml_parameter', json_schema: {} }),
      'constraint.unsupported: the format "qwen_xml_parameter" is not supported',
    ],
    [tag({ type: 'exclude_token', tokens: [] }), 'constraint.unsupported: the format "exclude_token" is not supported'],
    [tag({ ...INTEGER, style: 'qwen_xml' }), 'constraint.unsupported: `style` of a format is not supported'],
    [tag({ ...ANY_TEXT, max_tokens: 5 }), 'constraint.unsupported: `max_tokens` of a format is not supported'],
    [tag({ ...ANY_TEXT, novelty: 5 }), 'constraint.unsupported: `novelty` of a format is not supported'],
    [
      tag({ type: 'sequence', elements: [ANY_TEXT, INTEGER] }),
      'constraint.unsupported: free text that is followed by neither',
    ],
    [tag({ type: 'token', token: '<|none|>' }), 'constraint.invalid: there is no control token "<|none|>"'],
    [
      triggered({ triggers: ['<', '<x'] }),
      'constraint.invalid: exactly one trigger must be a prefix of the begin "<x>", got 2',
    ],
    [{ kind: 'structural_tag', tag: '[' }, 'constraint.invalid: the structural tag is not JSON'],
    [{ kind: 'structural_tag', tag: {} }, 'constraint.invalid: a format must be an object'],
  ])('%j', (spec, expected) => {
    expect(refusal(spec).slice(0, expected.length)).toBe(expected);
  });
});

describe('limits', () => {
  const nested = (levels: number): unknown => (levels === 0 ? {} : { items: nested(levels - 1) });
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, true]));
  test.each<[string, ConstraintSpec]>([
    ['specBytes', schema({ const: 'x'.repeat(300_000) })],
    ['schemaDepth', schema(nested(64))],
    ['schemaDepth', schema({ const: JSON.parse('['.repeat(80) + ']'.repeat(80)) as unknown })],
    ['schemas', schema({ anyOf: Array.from({ length: 5001 }, () => true) })],
    ['enumValues', schema({ enum: Array.from({ length: 10_001 }, (_, index) => index) })],
    ['optionalProperties', schema({ properties: many(451) })],
    ['properties', schema({ properties: many(2001), required: Object.keys(many(2001)) })],
    ['choices', choice(...Array.from({ length: 10_001 }, (_, index) => `${index}`))],
    ['choiceBytes', choice('x'.repeat(300_000))],
    ['regexBytes', regex('x'.repeat(16_385))],
    ['regexDepth', regex('('.repeat(101) + ')'.repeat(101))],
    ['repetitions', regex('x{100001}')],
    ['grammarBytes', grammar(`root ::= "${'x'.repeat(65_536)}"`)],
    [
      'grammarRules',
      grammar(`root ::= "x"\n${Array.from({ length: 2000 }, (_, index) => `r${index} ::= "x"`).join('\n')}`),
    ],
    ['grammarDepth', grammar(`root ::= ${'('.repeat(101)}"x"${')'.repeat(101)}`)],
    ['tagDepth', tag(Array.from({ length: 16 }).reduce<unknown>((content) => ({ type: 'star', content }), INTEGER))],
    ['tagFormats', tag({ type: 'or', elements: Array.from({ length: 1000 }, () => INTEGER) })],
  ])('%s is named with its value, without compiling', (limit, spec) => {
    expect(() => constraints.check(spec)).toThrow(
      new RegExp(String.raw`^at most \d+ .* are allowed \(${limit}\), got \d+$`),
    );
    expect(refusal(spec)).toMatch(/^constraint\.too_large: /);
  });
});

describe('a matcher', () => {
  test('has a mask equal to the accepted tokens, with end tokens if it may end', () => {
    using matcher = closing(constraints.compile(regex('[ab]c?')));
    const allowed = () => {
      const mask = new Uint32Array(9);
      matcher.fillMask(mask);
      return Array.from({ length: BYTES.vocabSize }, (_, id) => id).filter((id) => (mask[id >>> 5]! >>> (id & 31)) & 1);
    };
    expect(allowed()).toEqual([97, 98]);
    expect([matcher.canEnd, matcher.isStopped]).toEqual([false, false]);
    expect([99, 257, -1, 1e9, 0.5].map((token) => matcher.accept(token))).toEqual(
      Array.from({ length: 5 }, () => false),
    );
    expect(allowed()).toEqual([97, 98]); // unchanged by the refused token
    expect(matcher.accept(98)).toBe(true);
    expect([matcher.canEnd, matcher.isStopped]).toEqual([true, false]);
    expect(allowed()).toEqual([99, 257, 258]);
    expect(matcher.accept(99)).toBe(true);
    expect([matcher.canEnd, matcher.isStopped]).toEqual([true, true]);
    expect(allowed()).toEqual([257, 258]);
    expect([matcher.accept(97), matcher.accept(258), matcher.isStopped]).toEqual([false, true, true]);
  });

  test('ends when an end token is accepted early', () => {
    using matcher = closing(constraints.compile(regex('a*')));
    expect([matcher.accept(97), matcher.accept(257), matcher.isStopped, matcher.accept(97)]).toEqual([
      true,
      true,
      true,
      false,
    ]);
  });

  test('goes its own way from its clone, which outlives it', () => {
    const matcher = constraints.compile(regex('a(b|c)'));
    expect(matcher.accept(97)).toBe(true);
    using clone = closing(matcher.clone());
    expect(matcher.accept(98)).toBe(true);
    matcher.close();
    expect([clone.isStopped, clone.accept(99), clone.isStopped]).toEqual([false, true, true]);
    expect(() => matcher.accept(97)).toThrow('closed');
  });

  test('is compiled once for equal constraints, and gives its memory back', async () => {
    using own = new Constraints(BYTES, { cacheBytes: 300_000 });
    const specs = Array.from({ length: 12 }, (_, index) =>
      schema({ enum: Array.from({ length: 300 }, (__, n) => `${index}-${n}`) }),
    );
    for (const spec of specs) own.compile(spec).close();
    const { numCached, liveBytes } = own.stats;
    expect(numCached).toBeGreaterThan(0);
    expect(numCached).toBeLessThan(12);
    expect(liveBytes).toBeLessThanOrEqual(300_000);
    const matchers = Array.from({ length: 50 }, () => own.compile(specs[11]!));
    expect(own.stats.numCached).toBeGreaterThan(0); // the requested one is never evicted
    for (const matcher of matchers) matcher.close();
    expect(own.stats.liveBytes).toBeLessThanOrEqual(liveBytes);
  });
});

describe('validate', () => {
  test('agrees with compile', async () => {
    await constraints.validate(regex('[a-f]{3}'));
    await expect(constraints.validate(regex(String.raw`[^\s\S]`))).rejects.toMatchObject({
      code: 'constraint.unsatisfiable',
    });
    await expect(constraints.validate(regex('('))).rejects.toMatchObject({ code: 'constraint.invalid' });
  });

  test('answers each of many that ask at once', async () => {
    const verdicts = await Promise.allSettled(
      Array.from({ length: 30 }, (_, index) =>
        constraints.validate(index % 3 === 0 ? schema({ $ref: '#/$defs/x' }) : regex(`y{${index}}`)),
      ),
    );
    expect(verdicts.map(({ status }) => status)).toEqual(
      Array.from({ length: 30 }, (_, index) => (index % 3 === 0 ? 'rejected' : 'fulfilled')),
    );
  });

  test('gives up on request, and if it takes too long', async () => {
    using slow = new Constraints(BYTES, { validationTimeoutMs: 1 });
    await expect(slow.validate(regex('a'), AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone');
    const leaving = new AbortController();
    const waiting = slow.validate(regex('b'), leaving.signal);
    leaving.abort(new Error('left'));
    await expect(waiting).rejects.toThrow('left');
    const large = schema({ enum: Array.from({ length: 9000 }, (_, index) => `value ${index}`) });
    await expect(slow.validate(large)).rejects.toMatchObject({ code: 'constraint.timeout' });
  });

  test('a verdict that waited while this thread was busy is not too late', async () => {
    using busy = new Constraints(BYTES, { validationTimeoutMs: 100 });
    await busy.validate(regex('the thread is there'));
    // From here timers run before messages of other threads.
    await new Promise((next) => setImmediate(next));
    const waiting = busy.validate(regex('a[bc]+d'));
    const until = performance.now() + 300;
    while (performance.now() < until);
    await expect(waiting).resolves.toBeUndefined();
  });
});

test('the first constraint starts the compiling thread, and a thread that had to be ended is replaced at once', async () => {
  using kept = new Constraints(BYTES, { validationTimeoutMs: 1 });
  expect(kept.isCompiling).toBe(false);
  expect(kept.stats.numThreads).toBe(0);
  const slow = kept.validate(schema({ enum: Array.from({ length: 9000 }, (_, index) => `value ${index}`) }));
  expect(kept.isCompiling).toBe(true);
  await expect(slow).rejects.toMatchObject({ code: 'constraint.timeout' });
  expect(kept.isCompiling).toBe(false);
  expect(kept.stats.numThreads).toBe(2);
});
