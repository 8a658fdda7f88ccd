import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { ChatTemplate } from './chat-template.ts';
import { JinjaTemplate } from './jinja-template.ts';
import { Tokenizer } from '../encoding/tokenizer.ts';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';
import { TemplateProgram } from './template-program.ts';

interface Fixture {
  versions: Record<string, string>;
  /** Variables of lines without their own, as JSON text. */
  variables: string;
  lines: [template: string, variables: string | null, text: string][];
}

// Lines of Jinja with jinja2's texts: lab/jinja2/record-texts.py
const { variables: shared, lines } = JSON.parse(
  await readFile(new URL('./fixtures/jinja2.json', import.meta.url), 'utf8'),
) as Fixture;
const NOW = new Date(2026, 2, 4, 15, 7, 9);

test(`${lines.length} lines have the texts of jinja2`, () => {
  const different = lines.filter(([template, variables, text]) => {
    const result = new JinjaTemplate(template).render(variables ?? shared, NOW, 1_000_000);
    return result.kind !== 'text' || result.text !== text;
  });
  expect(different).toEqual([]);
});

test.each([
  ["{{ '%d' % (1e308 * 10) }}", 'cannot convert float inf to integer'],
  ["{{ '%d' % (1e308 * 10 - 1e308 * 10) }}", 'cannot convert float nan to integer'],
])('%s fails as in Python', (source, reason) => {
  expect(() => new TemplateProgram(source).run({})).toThrow(reason);
});

test('strftime_now knows the codes of Python', () => {
  const program = new TemplateProgram('{{ strftime_now(f) }}', { clock: () => NOW });
  const written = (f: string) => program.run({ f });
  expect(written('%d %b %Y|%Y-%m-%dT%H:%M:%S|%A %B %-d, %y')).toBe(
    '04 Mar 2026|2026-03-04T15:07:09|Wednesday March 4, 26',
  );
  expect(written('%a %I:%M %p %-H|%j %U %W %V %G %u %w|100%% %e')).toBe(
    'Wed 03:07 PM 15|063 09 09 10 2026 3 3|100%  4',
  );
});

test.each([
  [
    'a deep list',
    '{% set ns = namespace(l=[]) %}{% for i in range(50000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}',
  ],
  ['a macro that calls itself', '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}'],
  [
    'lists of one list',
    '{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l ~ 1 }}',
  ],
  [
    'a text that doubles',
    "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
  ],
])('%s fails, and other templates render as before', (_, source) => {
  const before = new TemplateProgram('{{ x }}');
  expect(before.run({ x: [1, null] })).toBe('[1, None]');
  expect(() => new TemplateProgram(source).run({})).toThrow('the chat template failed: ');
  expect(before.run({ x: [1, null] })).toBe('[1, None]');
});

test('a lone surrogate is escaped as Python does, and U+FFFD in a prompt', () => {
  const tokenizer = new Tokenizer(new ByteVocabulary());
  const source =
    '{{ messages[0].content }}|{{ [messages[0].content] }}|{{ messages[0].content | tojson(ensure_ascii=true) }}';
  const { text } = new ChatTemplate(tokenizer, source).render([{ role: 'user', content: 'a\ud83d' }]);
  expect(text).toBe(String.raw`a�|['a\ud83d']|"a\ud83d"`);
});
