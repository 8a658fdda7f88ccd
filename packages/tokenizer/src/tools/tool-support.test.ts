import { expect, test } from 'vitest';
import { TemplateProgram } from '../template/template-program.ts';
import {
  CHATML,
  LLAMA3,
  MISTRAL,
  PARTS,
  PYTHONIC,
  QWEN,
  QWEN_XML,
  THINKING,
  TOOLLESS,
} from '../testing/test-templates.ts';

const BOTH = { writesTools: true, writesCalls: true };
const NEITHER = { writesTools: false, writesCalls: false };

test.each([
  ['CHATML', CHATML, BOTH],
  ['QWEN', QWEN, BOTH],
  ['QWEN_XML', QWEN_XML, BOTH],
  ['LLAMA3', LLAMA3, BOTH],
  ['MISTRAL', MISTRAL, BOTH],
  ['PYTHONIC', PYTHONIC, BOTH],
  ['PARTS', PARTS, NEITHER],
  ['THINKING', THINKING, NEITHER],
  ['TOOLLESS', TOOLLESS, NEITHER],
  ['tools that are only counted', '{{ tools | length }}', NEITHER],
  ['calls alone', '{{ messages[1].tool_calls[0].function.name }}', { writesTools: false, writesCalls: true }],
  [
    'tools in the system message only',
    "{% if messages[0].role == 'system' %}{{ tools }}{% endif %}",
    { writesTools: true, writesCalls: false },
  ],
  [
    'no system message',
    "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ tools }}",
    { writesTools: true, writesCalls: false },
  ],
  [
    'only calls, of a conversation that a user starts, without answers of tools',
    "{% for m in messages %}{% if m.role == 'tool' or (loop.first and m.role != 'user') %}{{ raise_exception('no') }}{% endif %}{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}{% endfor %}",
    { writesTools: false, writesCalls: true },
  ],
  [
    'a template that refuses everything is judged by its source',
    "{{ raise_exception('no') }}{{ tools }}",
    { writesTools: true, writesCalls: false },
  ],
])('%s', (_, source, expected) => {
  expect(new TemplateProgram(source).toolSupport).toEqual(expected);
});

test('one that never ends is stopped once, not probe after probe', () => {
  const endless = '{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}';
  let numRuns = 0;
  const program = new TemplateProgram(endless, {
    maxSteps: 100_000,
    clock: () => {
      numRuns += 1;
      return new Date();
    },
  });
  expect(() => program.toolSupport).toThrow(/takes more than 100000 steps/);
  expect(numRuns).toBe(1);
});
