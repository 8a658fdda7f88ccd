import { Environment, parse, tokenize } from '@huggingface/jinja';
import { expect, test } from 'vitest';
import { areSmall, runSmall } from './small-run.ts';

const run = (source: string, variables: Record<string, unknown> = {}) => {
  const environment = new Environment();
  environment.set('range', (end: number) => Array.from({ length: end }, (_, index) => index));
  for (const [name, value] of Object.entries(variables)) environment.set(name, value);
  return runSmall(parse(tokenize(source)), environment);
};

test('a small run gives its text', () => {
  expect(run('{% for m in messages %}<{{ m.role }}>{% endfor %}', { messages: [{ role: 'user' }] })).toBe('<user>');
});

test('what the template throws comes through', () => {
  expect(() => run('{{ nothing.at.all() }}')).toThrow('not a function: got UndefinedValue');
});

test.each([
  ['many evaluations', '{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}'],
  [
    'a text that doubles',
    "{% set ns = namespace(s='x') %}{% for a in range(30) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
  ],
  ['a long list', '{{ range(100000) | length }}'],
  [
    'lists of lists, as a text',
    "{% set ns = namespace(a=['x']) %}{% for a in range(60) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a | tojson }}",
  ],
  [
    'objects of objects, as a text',
    "{% set ns = namespace(a={'x': 1}) %}{% for a in range(60) %}{% set ns.a = {'x': ns.a, 'y': ns.a} %}{% endfor %}{{ ns.a | tojson }}",
  ],
])('%s: it is given up, not finished', (_what, source) => {
  expect(run(source)).toBeNull();
});

test('short conversations are small, and long ones are not', () => {
  const message = { role: 'user', content: 'Hello', tool_calls: null };
  expect(areSmall({ messages: [message], tools: undefined, add_generation_prompt: true })).toBe(true);
  expect(areSmall({ messages: [{ ...message, content: 'x'.repeat(100_000) }] })).toBe(false);
  expect(areSmall({ messages: Array.from({ length: 3_000 }, () => message) })).toBe(false);
});
