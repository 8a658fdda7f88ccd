/** Templates that try to exhaust the engine's time, memory or stack, or to reach its host. */
import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { Tokenizer } from '../encoding/tokenizer.ts';
import { TemplateProgram } from '../template/template-program.ts';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';
import { CHATML } from '../testing/test-templates.ts';
import { TemplateSandbox } from './template-sandbox.ts';

const tokenizer = new Tokenizer(new ByteVocabulary(), { maxTextBytes: 2e6 });
const messages = [{ role: 'user', content: 'Hello' }];
const loop = (body: string, numTimes = 100_000) => `{% for i in range(${numTimes}) %}${body}{% endfor %}`;
const doubling = (start: string, step: string, end: string) =>
  `{% set ns = namespace(${start}) %}${loop(step, 60)}${end}`;
const nestedLists = doubling('l=[1]', '{% set ns.l = [ns.l, ns.l] %}', '');

const HOSTILE: Readonly<Record<string, string>> = {
  'a range of a billion': '{{ range(1000000000) | length }}',
  'ranges one by one': `{% set ns = namespace(l=[]) %}${loop('{% set ns.l = ns.l + range(100000) | list %}')}`,
  'loops in loops': loop(loop('')),
  'endless output': loop(loop('xxxxxxxxxxxxxxxx')),
  'a text that doubles': doubling("s='x'", '{% set ns.s = ns.s ~ ns.s %}', '{{ ns.s | upper }}'),
  'a filter that grows a text': doubling("s='x'", "{% set ns.s = ns.s | replace('x', 'xx') %}", '{{ ns.s | length }}'),
  'a method that grows a text': doubling("s='x'", "{% set ns.s = ns.s.replace('x', 'xx') %}", '{{ ns.s | length }}'),
  'a text times a number': "{{ 'x' * 1000000000 }}",
  'a text times numbers': "{{ ('x' * 10000000) * 100000 }}",
  'a list times numbers': '{{ ([0] * 10000000) * 1000 }}',
  'an indent': "{{ 'a\\nb' | indent(1000000000) }}",
  'an indent of JSON': '{{ messages | tojson(indent=1000000000) }}',
  'a width of %': "{{ '%1000000000d' % 1 }}",
  'a width of format': "{{ '{:1000000000}'.format(1) }}",
  'a power of a power': '{{ 10 ** 10 ** 10 }}',
  'a width of center': "{{ 'a'.center(1000000000) }}",
  'a long separator': "{{ range(100000) | join('x' * 1000000) | length }}",
  'spaces in a statement': `{% ${' '.repeat(200_000)}if`,
  'tags and spaces': `{%${' '.repeat(100)}`.repeat(2_500),
  parentheses: `{{ ${'('.repeat(20_000)}1${')'.repeat(20_000)} }}`,
  conditions: `${'{% if true %}'.repeat(9_000)}x${'{% endif %}'.repeat(9_000)}`,
  lists: `{{ ${'['.repeat(20_000)}${']'.repeat(20_000)} | string }}`,
  nots: `{{ ${'not '.repeat(60_000)}1 }}`,
  minuses: `{{ ${'-'.repeat(100_000)}1 }}`,
  pluses: `{{ 1${'+1'.repeat(100_000)} }}`,
  filters: `{{ 1${'|abs'.repeat(60_000)} }}`,
  attributes: `{{ x${'.a'.repeat(100_000)} }}`,
  'a macro that calls itself': '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}',
  'two macros that call each other':
    '{% macro f() %}{{ g() }}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}',
  'a tree of macros': '{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(30) }}',
  'a recursive loop': '{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}',
  'a deep list': `{% set ns = namespace(l=[]) %}${loop('{% set ns.l = [ns.l] %}', 50_000)}{{ ns.l }}`,
  'deep lists compared': `{% set ns = namespace(l=[], m=[]) %}${loop('{% set ns.l = [ns.l] %}{% set ns.m = [ns.m] %}', 50_000)}{{ ns.l == ns.m }}`,
  'lists of one list': `${nestedLists}{{ ns.l | string | length }}`,
  'lists of one list as JSON': `${nestedLists}{{ ns.l | tojson | length }}`,
  'many sorts': loop('{% set x = range(10000) | list | sort %}', 10_000),
  'many splits': `{% set s = 'a' * 1000000 %}${loop("{% set x = s.split('a') %}", 1000)}`,
  'many searches': `{% set l = range(100000) | list %}${loop('{% set x = -1 in l %}')}`,
  classes: "{{ ''.__class__.__mro__ }}",
  'an include': "{% include 'x' %}",
  'an import': "{% import 'os' as os %}",
  'functions of the engine': '{{ process }}{{ globalThis }}{{ require }}{{ self }}{{ debug() }}',
};

/** Harmless templates with jinja2's texts. */
const HARMLESS: Readonly<Record<string, [source: string, text: string]>> = {
  spaces: [`${' '.repeat(250_000)}x`, `${' '.repeat(250_000)}x`],
  'lines of spaces': [`${`${' '.repeat(1_200)}\n`.repeat(200)}x`, `${`${' '.repeat(1_200)}\n`.repeat(200)}x`],
  'lists of one list compared': [
    `${nestedLists}{{ ns.l == ns.l }}{{ [ns.l, ns.l] | unique | list | length }}`,
    'True1',
  ],
  'one sort': ['{{ range(10000) | list | sort | length }}', '10000'],
  constructors: ["{{ ''.constructor }}{{ messages.constructor }}{{ {}.__proto__ }}", ''],
  'names of the host': ['{{ process }}{{ globalThis }}{{ require }}', ''],
};

let sandbox: TemplateSandbox;
beforeAll(() => {
  sandbox = new TemplateSandbox();
});
afterAll(() => sandbox.close());

test.each(Object.entries(HOSTILE))(
  '%s ends in an error, and the next template renders',
  async (_, source) => {
    await expect(sandbox.render({ tokenizer, source, messages })).rejects.toMatchObject({
      code: 'tokenizer.template_failed',
      message: expect.stringMatching(/^the chat template (failed: |was stopped: |wrote \d+ characters)/) as string,
    });
    const good = () => sandbox.render({ tokenizer, source: CHATML, messages });
    expect((await vi.waitFor(good, { timeout: 60_000 })).text).toContain('Hello');
  },
  60_000,
);

test.each(Object.entries(HARMLESS))(
  '%s render',
  async (_, [source, text]) => {
    const render = () => sandbox.render({ tokenizer, source, messages });
    expect((await vi.waitFor(render, { timeout: 60_000 })).text).toBe(text);
  },
  60_000,
);

/** Templates that exhaust the stack or the memory of WebAssembly; the instance is replaced. */
const TRAPS = ['nots', 'minuses', 'pluses', 'filters', 'attributes', 'a deep list', 'deep lists compared'];

test.each(TRAPS)('%s in this process leave the engine as it was', (name) => {
  const before = new TemplateProgram('{{ x }}{% macro f(a) %}{{ a }}{% endmacro %}{{ f(x) }}');
  const reason = 'the chat template failed: it needs more memory, or nests deeper, than a chat template may';
  expect(() => new TemplateProgram(HOSTILE[name]!).run({ messages })).toThrow(reason);
  expect(before.run({ x: [1, null] })).toBe('[1, None][1, None]');
});
