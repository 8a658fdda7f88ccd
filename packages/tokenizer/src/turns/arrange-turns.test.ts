import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import {
  ChatTemplate,
  renderHistory,
  renderInSandbox,
  renderSupervised,
  Tokenizer,
  type HistoryItem,
  type TemplateMessage,
} from '../index.ts';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';
import { CHATML, LLAMA3, MISTRAL, PARTS, QWEN, THINKING, TOOLLESS } from '../testing/test-templates.ts';

/** Shows each message as its role and text; `rule` refuses, drops or moves some. */
const showing = (rule: string, isDropped = 'false') =>
  `{%- for m in messages -%}{%- set previous = messages[loop.index0 - 1].role if loop.index0 > 0 else '' -%}${rule}` +
  `{%- if not (${isDropped}) -%}[{{ m.role }} {{ m.content }}{% for c in m.tool_calls or [] %} call {{ c.function.name }}{% endfor %}]{%- endif -%}{%- endfor -%}` +
  '{%- if tools -%}{%- endif -%}';
const SYSTEM_FIRST =
  "{%- if m.role == 'system' and loop.index0 > 0 -%}{{ raise_exception('system first') }}{%- endif -%}";
const TEMPLATES = {
  keeps: showing(''),
  refuses: showing(SYSTEM_FIRST),
  drops: showing('', "m.role == 'system' and loop.index0 > 0"),
  moves: `{%- for m in messages if m.role == 'system' -%}[system {{ m.content }}]{%- endfor -%}${showing('', "m.role == 'system'")}`,
  repeats: `{%- for m in messages if m.role == 'system' -%}[system {{ m.content }}]{%- endfor -%}${showing('')}`,
  // Keeps a system message in its place, and counts them at the start.
  counts: `{{ messages | selectattr('role', 'equalto', 'system') | list | length }}${showing('')}`,
  alternates: showing(
    `${SYSTEM_FIRST}{%- if m.role == previous and m.role in ['user', 'assistant'] -%}{{ raise_exception('take turns') }}{%- endif -%}`,
  ),
  skips: showing('', "m.role == previous and m.role in ['user', 'assistant']"),
  developers: showing("{%- if m.role == 'developer' -%}!{%- endif -%}"),
  // Like Mistral's: the assistant follows results.
  uninterrupted: showing(
    "{%- if m.role == 'user' and previous == 'tool' -%}{{ raise_exception('the result is unanswered') }}{%- endif -%}",
  ),
  ignores: showing('', "m.role == 'user' and previous == 'tool'"),
  'first developer': showing('', "m.role in ['system', 'developer'] and loop.index0 > 0"),
};

const tokenizer = new Tokenizer(new ByteVocabulary());
const templateOf = (source: string) => new ChatTemplate(tokenizer, source);
const textOf = (source: string, messages: readonly TemplateMessage[]) =>
  templateOf(source).render(messages, { addGenerationPrompt: false }).text;

const system = (content: string) => ({ role: 'system', content });
const developer = (content: string) => ({ role: 'developer', content });
const user = (content: string) => ({ role: 'user', content });
const reply = (content: string) => ({ role: 'assistant', content });
const calls = (...names: string[]) => ({
  role: 'assistant',
  content: '',
  tool_calls: names.map((name) => ({ id: name, type: 'function', function: { name, arguments: '{}' } })),
});
const result = (content: string) => ({ role: 'tool', content, tool_call_id: content });

const FOLDED = ['refuses', 'drops', 'moves', 'repeats', 'counts', 'alternates', 'first developer'] as const;

describe('an instruction after a turn', () => {
  test.each(['system', 'developer'])('of the role %s stays if the template keeps it', (role) => {
    const note = { role, content: 'n' };
    expect(textOf(TEMPLATES.keeps, [user('a'), note])).toBe('[user a][system n]');
    expect(textOf(TEMPLATES.keeps, [system('s'), user('a'), reply('b'), note, user('c')])).toBe(
      '[system s][user a][assistant b][system n][user c]',
    );
    expect(textOf(TEMPLATES.keeps, [user('a'), calls('f'), result('f'), note])).toBe(
      '[user a][assistant  call f][tool f][system n]',
    );
  });

  test('stays a developer’s for a template that keeps those', () => {
    expect(textOf(TEMPLATES.developers, [user('a'), developer('n')])).toBe('[user a]![developer n]');
  });

  test.each(FOLDED)('goes into the turn next to it: the template %s', (name) => {
    const text = (...messages: TemplateMessage[]) => textOf(TEMPLATES[name], messages).replace(/^\d/, '');
    for (const note of [system('n'), developer('n')]) {
      expect(text(user('a'), note)).toBe('[user a\n\nn]');
      expect(text(user('a'), reply('b'), note)).toBe('[user a][assistant b][user n]');
      expect(text(user('a'), reply('b'), note, user('c'))).toBe('[user a][assistant b][user n\n\nc]');
      expect(text(user('a'), calls('f'), result('f'), note)).toBe('[user a][assistant  call f][tool f\n\nn]');
      expect(text(user('a'), note, reply('b'), user('c'), note)).toBe('[user a\n\nn][assistant b][user c\n\nn]');
    }
  });

  test.each(Object.keys(TEMPLATES) as (keyof typeof TEMPLATES)[])(
    'comes after all results of the calls in front of it: the template %s',
    (name) => {
      const [before, after] = [system('note1'), developer('note2')];
      const text = textOf(TEMPLATES[name], [
        user('a'),
        calls('f', 'g'),
        before,
        result('f'),
        after,
        result('g'),
        reply('z'),
      ]);
      expect(text).toMatch(/\[assistant {2}call f call g\]\[tool f\]\[tool g/);
      expect(text.indexOf('note1')).toBeGreaterThan(text.indexOf('tool g'));
      expect(text.indexOf('note2')).toBeGreaterThan(text.indexOf('note1'));
      expect(text.indexOf('assistant z')).toBeGreaterThan(text.indexOf('note2'));
    },
  );

  test('between two calls with later results goes after the results', () => {
    const messages = [user('a'), calls('f'), system('n'), calls('g'), result('f'), result('g')];
    expect(textOf(TEMPLATES.keeps, messages)).toBe(
      '[user a][assistant  call f][assistant  call g][tool f][tool g][system n]',
    );
    expect(textOf(TEMPLATES.alternates, messages)).toBe('[user a][assistant  call f call g][tool f][tool g\n\nn]');
  });
});

test('an instruction keeps its place, even if a result before it is missing', () => {
  const first = [user('a'), calls('f', 'g'), result('f'), calls('h'), result('h'), system('n')];
  const second = [...first, calls('i'), result('i'), system('m')];
  for (const name of ['keeps', 'refuses'] as const) {
    const [before, after] = [textOf(TEMPLATES[name], first), textOf(TEMPLATES[name], second)];
    expect(after.slice(0, before.length)).toBe(before);
  }
});

test('an instruction that goes into a turn of several parts leaves the parts as they were', () => {
  const parts = { role: 'user', content: ['one', 'two'].map((text) => ({ type: 'text', text })) };
  const source = PARTS.replace(
    '{%- for message',
    "{%- for m in messages if m.role == 'system' -%}{{ raise_exception('none') }}{%- endfor -%}{%- for message",
  );
  const [before, after] = [textOf(source, [parts]), textOf(source, [parts, system('n')])];
  const kept = before.slice(0, before.indexOf('<|im_end|>'));
  expect(kept).toContain('onetwo');
  expect(after.slice(0, kept.length)).toBe(kept);
  expect(after).toContain('onetwo\n\nn');
  // Templates that take texts get the same text.
  expect(textOf(TEMPLATES.refuses, [parts, system('n')])).toBe('[user one\ntwo\n\nn]');
});

describe('instructions at the start', () => {
  test('become one if the template writes only the first', () => {
    expect(textOf(TEMPLATES.refuses, [system('a'), system('b'), user('c')])).toBe('[system a\n\nb][user c]');
    expect(textOf(TEMPLATES.drops, [system('a'), developer('b'), user('c')])).toBe('[system a\n\nb][user c]');
    expect(textOf(TEMPLATES['first developer'], [system('a'), developer('b'), user('c')])).toBe(
      '[system a\n\nb][user c]',
    );
    expect(textOf(TEMPLATES.keeps, [system('a'), system('b'), user('c')])).toBe('[system a][system b][user c]');
  });

  test('are the same for any continuation after the first turn', () => {
    for (const source of Object.values(TEMPLATES)) {
      const first = [developer('s'), user('a')];
      const [before, after] = [
        textOf(source, first),
        textOf(source, [...first, reply('b'), developer('d'), user('c')]),
      ];
      expect(after.slice(0, before.length)).toBe(before);
    }
  });
});

describe('two turns in a row', () => {
  test.each(['alternates', 'skips'] as const)('become one: the template %s', (name) => {
    const text = (...messages: TemplateMessage[]) => textOf(TEMPLATES[name], messages);
    expect(text(user('a'), user('b'), user(''), reply('c'), reply('d'))).toBe('[user a\n\nb][assistant c\n\nd]');
    expect(text(user('a'), reply('b'), calls('f'), result('f'))).toBe('[user a][assistant b call f][tool f]');
  });

  test('stay two if the template writes both', () => {
    expect(textOf(TEMPLATES.keeps, [user('a'), user('b'), reply('c'), reply('d')])).toBe(
      '[user a][user b][assistant c][assistant d]',
    );
  });

  test('are joined with their parts, thoughts and calls', () => {
    const messages = [
      user('a'),
      { role: 'assistant', content: [{ type: 'text', text: 'b' }], reasoning: 'r' },
      { role: 'assistant', content: null, reasoning_content: 's', tool_calls: calls('f').tool_calls },
    ];
    const source = TEMPLATES.alternates.replace('{{ m.content }}', '{{ m.reasoning }}|{{ m.content }}');
    expect(textOf(source, messages)).toBe('[user |a][assistant r\n\ns|b call f]');
  });

  test('the end of joined turns can be continued', () => {
    const { text } = templateOf(TEMPLATES.alternates).render([user('a'), reply('b'), reply('c')], {
      continueFinalMessage: true,
    });
    expect(text).toBe('[user a][assistant b\n\nc');
  });
});

describe('a turn of the user after the result of a tool', () => {
  const [more, again] = [user('c'), user('d')];
  test.each(['uninterrupted', 'ignores'] as const)('goes to the end of the result: the template %s', (name) => {
    const text = (...messages: TemplateMessage[]) => textOf(TEMPLATES[name], messages);
    const called = [user('a'), calls('f', 'g'), result('f'), result('g')];
    const start = '[user a][assistant  call f call g][tool f]';
    expect(text(...called, more)).toBe(`${start}[tool g\n\nc]`);
    expect(text(...called, more, again)).toBe(`${start}[tool g\n\nc\n\nd]`);
    expect(text(...called, more, reply('e'), again)).toBe(`${start}[tool g\n\nc][assistant e][user d]`);
    expect(text(...called, more, calls('h'), result('h'), again)).toBe(
      `${start}[tool g\n\nc][assistant  call h][tool h\n\nd]`,
    );
    expect(text(...called, reply('e'), again)).toBe(`${start}[tool g][assistant e][user d]`);
  });

  test.each(['keeps', 'alternates', 'refuses'] as const)('stays if the template writes it: %s', (name) => {
    expect(textOf(TEMPLATES[name], [user('a'), calls('f'), result('f'), more])).toBe(
      '[user a][assistant  call f][tool f][user c]',
    );
  });

  test('stays if the template drops earlier reasoning for it, as for each new turn of the user', () => {
    const source = `{%- set ns = namespace(last=0) -%}{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}${showing(
      "{%- if m.role == 'assistant' and loop.index0 > ns.last -%}<think>{%- endif -%}",
    )}`;
    expect(textOf(source, [user('a'), calls('f'), result('f'), more])).toBe(
      '[user a][assistant  call f][tool f][user c]',
    );
  });
});

test.each(Object.entries({ ...TEMPLATES, CHATML, LLAMA3, MISTRAL, PARTS, QWEN, THINKING, TOOLLESS }))(
  'a longer conversation starts with the same turns: %s',
  (_name, source) => {
    const template = templateOf(source);
    const turn = fc.constantFrom(...[system, developer, user].map((make) => make), reply);
    fc.assert(
      fc.property(fc.array(turn, { minLength: 1, maxLength: 6 }), (makers) => {
        const messages = [user('first'), ...makers.map((make, index) => make(`text${index}`))];
        let before = '';
        messages.forEach((message, index) => {
          // Prompts are sampled after all turns except the assistant's.
          const isSampled = messages[index + 1]?.role === 'assistant' || index === messages.length - 1;
          if (message.role === 'assistant' || !isSampled) return;
          let text: string;
          try {
            text = template.render(messages.slice(0, index + 1), { addGenerationPrompt: false }).text;
          } catch {
            return; // MISTRAL requires other first turns
          }
          // The ending of the last turn may come later.
          const lastText = /text\d|first/g;
          const end = [...before.matchAll(lastText)].at(-1);
          const kept = end === undefined ? '' : before.slice(0, end.index + end[0].length);
          if (!source.includes('</think>')) expect(text.slice(0, kept.length)).toBe(kept);
          for (const [each] of messages.slice(0, index + 1).entries())
            expect(text).toContain(each === 0 ? 'first' : `text${each - 1}`);
          before = text;
        });
      }),
      { numRuns: 40 },
    );
  },
);

test('a template of a request gets the same turns', async () => {
  const messages = [developer('s'), system('t'), user('a'), reply('b'), reply('c'), developer('n'), user('d')];
  for (const source of Object.values(TEMPLATES)) {
    const { text } = templateOf(source).render(messages);
    expect((await renderInSandbox({ tokenizer, source, messages })).text).toBe(text);
  }
});

describe('training', () => {
  const sampled = (text: string): HistoryItem => {
    const tokenIds = tokenizer.encode(text);
    const logprobs = Float32Array.from(tokenIds, () => -1);
    return { kind: 'choice', message: { role: 'assistant', content: text }, tokenIds, logprobs };
  };
  const turn = (message: TemplateMessage): HistoryItem => ({ kind: 'message', message });
  const CLOSED = (rule: string) =>
    `{%- for m in messages -%}${rule}<{{ m.role }}>{{ m.content }}{%- endfor -%}{%- if add_generation_prompt -%}<assistant>{%- endif -%}`;

  test.each([
    ['keeps', CLOSED(''), '<user>c<system>n'],
    ['refuses', CLOSED(SYSTEM_FIRST), '<user>c\n\nn'],
  ])(
    'has one history with a note, after the prompts that were sampled from: the template %s',
    (_name, source, tail) => {
      const template = templateOf(source);
      for (const note of [system('n'), developer('n')]) {
        const messages = [user('a'), reply('b'), user('c'), note];
        const prompt = template.render(messages);
        const items = [turn(user('a')), sampled('b'), turn(user('c')), turn(note), sampled('d')];
        const [sequence, ...others] = renderHistory(template, items);
        expect(others).toEqual([]);
        expect(tokenizer.decode(sequence?.tokenIds ?? [])).toBe(`<user>a<assistant>b${tail}<assistant>d`);
        expect([...(sequence?.tokenIds ?? [])].slice(0, prompt.tokenIds.length)).toEqual([...prompt.tokenIds]);
        const written = renderSupervised(template, [...messages, reply('d')], { assistantTurns: 'last' });
        expect(written.map(({ tokenIds }) => tokenizer.decode(tokenIds))).toEqual([
          `<user>a<assistant>b${tail}<assistant>d`,
        ]);
      }
    },
  );
});
