import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll, describe, expect, test, vi } from 'vitest';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';
import { ChatTemplate } from '../template/chat-template.ts';
import { CHATML, QWEN } from '../testing/test-templates.ts';
import { Tokenizer } from '../encoding/tokenizer.ts';
import { renderInSandbox, TemplateSandbox, type SandboxRenderOptions } from './template-sandbox.ts';

const tokenizer = new Tokenizer(new ByteVocabulary(), { maxTextBytes: 2e6 });
// Templates that end by themselves get time for a busy machine; endless ones are stopped soon.
const sandbox = new TemplateSandbox({ timeoutMs: 60_000 });
const hasty = new TemplateSandbox();
const hostileMs: number[] = [];
afterAll(() => {
  sandbox.close();
  hasty.close();
  console.log(`hostile templates took at most ${Math.max(0, ...hostileMs).toFixed(0)} ms`);
});
const user = (content: string) => ({ role: 'user', content });
const render = (source: string, options: Partial<SandboxRenderOptions> = {}) =>
  sandbox.render({ tokenizer, source, messages: [user('Hello')], ...options });
const failed = (message: RegExp) =>
  expect.objectContaining({
    name: 'TokenizerError',
    code: 'tokenizer.template_failed',
    message: expect.stringMatching(message),
  });

/** Retries a good template until a busy machine manages it within the sandbox's limit. */
const rendersAgain = (own: TemplateSandbox, source: string) =>
  vi.waitFor(() => own.render({ tokenizer, source, messages: [user('Hello')] }), { timeout: 60_000, interval: 10 });

const STOPPED = /was stopped: it (ran longer than \d+ ms|ended)|takes more than \d+ steps|needs more memory/;
const loop = (body: string, numTimes = 100_000) => `{% for i in range(${numTimes}) %}${body}{% endfor %}`;

const HOSTILE: [string, string, RegExp][] = [
  ['a range that takes all memory', '{{ range(1000000000) | length }}', /at most 100000 items/],
  [
    'ranges one by one',
    `{% set ns = namespace(l=[]) %}${loop('{% set ns.l = ns.l + range(100000) | list %}')}`,
    STOPPED,
  ],
  ['loops inside each other', loop(loop('')), STOPPED],
  ['a loop that writes forever', loop(loop('xxxxxxxxxxxxxxxx')), STOPPED],
  [
    'a string that doubles',
    `{% set ns = namespace(s='x' ) %}${loop('{% set ns.s = ns.s ~ ns.s %}', 40)}{{ ns.s | upper }}`,
    /failed|was stopped/,
  ],
  [
    'a string that doubles within the limit of strings',
    `{% set ns = namespace(s='x') %}${loop('{% set ns.s = ns.s ~ ns.s %}', 28)}{{ ns.s | upper | lower | upper }}`,
    /failed|was stopped|characters; the limit/,
  ],
  [
    'strings that are replaced and grow',
    `{% set ns = namespace(s='x') %}${loop("{% set ns.s = ns.s | replace('x', 'xx') %}", 30)}{{ ns.s | length }}`,
    /failed|was stopped/,
  ],
  ['an indent without bounds', "{{ 'a\\nb' | indent(1000000000) }}", /failed|was stopped/],
  ['an indent of JSON without bounds', '{{ messages | tojson(indent=1000000000) }}', /failed|was stopped|the limit/],
  ['too many spaces', ' '.repeat(300_000), /262144 characters, got 300000/],
  ['spaces in a statement', `{% ${' '.repeat(200_000)}if`, /failed|was stopped/],
  ['nested parentheses', `{{ ${'('.repeat(20_000)}1${')'.repeat(20_000)} }}`, /failed|was stopped/],
  ['nested conditions', `${'{% if true %}'.repeat(9_000)}x${'{% endif %}'.repeat(9_000)}`, /failed|was stopped/],
  ['nested lists', `{{ ${'['.repeat(20_000)}${']'.repeat(20_000)} | string }}`, /failed|was stopped/],
  ['a macro that calls itself', '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}', /failed|was stopped/],
  ['an include', "{% include 'x' %}", /failed/],
  ['an import', "{% import 'os' as os %}", /failed/],
  ['an endless reason', "{{ raise_exception('x' ~ (range(5000) | list | string)) }}", /^.{1000}$/],
];

test('calls keep digits, floats and the order of their keys on the way to the child', async () => {
  const args = '{"id": 1234567890123456789, "b": 1.0, "10": 1, "2": 2}';
  const tool_calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: args } }];
  const messages = [{ role: 'assistant', content: null, tool_calls }];
  const { text } = await render('{{ messages[0].tool_calls[0].function.arguments | tojson }}', { messages });
  expect(text).toBe(args);
});

describe('hostile templates', () => {
  test.each(HOSTILE)('%s ends in an error, in time, and nothing else happens', async (_, source, message) => {
    const canBeStopped = message.test('was stopped: it ended');
    const own = canBeStopped ? hasty : sandbox;
    const started = performance.now();
    await expect(own.render({ tokenizer, source, messages: [user('Hello')] })).rejects.toThrow(failed(message));
    hostileMs.push(performance.now() - started);
    expect((await rendersAgain(own, CHATML)).text).toContain('Hello');
  });

  test.each([
    ["{{ ''.constructor }}"],
    ["{{ messages.constructor.constructor('return process')() }}"],
    ["{{ {}.constructor.constructor('return 1')() }}"],
    ["{{ range.constructor('return process')() }}"],
    ['{{ process }}{{ globalThis }}{{ require }}{{ module }}{{ this }}'],
    ['{{ messages.__proto__ }}{{ messages[0].__proto__ }}{{ {}.__proto__ }}{{ [].__proto__ }}'],
    ["{% set ns = namespace() %}{% set ns.__proto__ = {'polluted': 1} %}{{ ns.polluted }}"],
    ["{% set d = {'__proto__': {'polluted': 1}, 'constructor': 1} %}{{ d.polluted }}"],
    ["{% set ns = namespace(__proto__={'polluted': 1}) %}{{ ns.polluted }}"],
    ['{{ raise_exception.constructor }}{{ strftime_now.constructor }}{{ cycler.constructor }}{{ joiner.constructor }}'],
  ])('%s reaches nothing', async (source) => {
    const text = await render(source).then(
      (prompt) => prompt.text,
      (error: { code?: string }) => error.code ?? '',
    );
    expect(text).not.toMatch(/process|function|native|object Object|^1/);
    // The child that ran it is unchanged.
    const all = await Promise.all(
      Array.from({ length: 4 }, () => render('{{ {}.polluted is defined }}{{ messages[0].polluted is defined }}')),
    );
    expect(all.map((prompt) => prompt.text)).toEqual(Array(4).fill('FalseFalse'));
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  test('variables with such names are data', async () => {
    const templateVariables = JSON.parse(
      '{"__proto__": {"polluted": 1}, "constructor": "c", "x": {"__proto__": 2}}',
    ) as Record<string, unknown>;
    expect((await render('{{ polluted is defined }}{{ constructor }}{{ x }}', { templateVariables })).text).toMatch(
      /^Falsec/,
    );
  });

  test('more text than may be written', async () => {
    const small = new TemplateSandbox({ maxOutputCharacters: 1_000, timeoutMs: 60_000 });
    const text = (numTimes: number) => small.render({ tokenizer, source: loop('0123456789', numTimes), messages: [] });
    await expect(text(101)).rejects.toThrow(failed(/wrote 1010 characters; the limit is 1000/));
    expect((await text(100)).text).toHaveLength(1_000);
    small.close();
  });

  test('data that is nested too deep', async () => {
    let deep: unknown = 1;
    for (let depth = 0; depth < 20_000; depth++) deep = [deep];
    await expect(render(CHATML, { templateVariables: { deep } })).rejects.toThrow(/128 levels/);
    expect(() => new ChatTemplate(tokenizer, CHATML).render([user('a')], { tools: [deep] })).toThrow(/128 levels/);
  });

  test('two slots, six endless templates and a good one: all end, and the event loop stays free', async () => {
    const short = new TemplateSandbox({ timeoutMs: 1_000 });
    await short.render({ tokenizer, source: 'x', messages: [] });
    let longestGapMs = 0;
    let numTicks = 0;
    let last = performance.now();
    const ticks = setInterval(() => {
      numTicks += 1;
      longestGapMs = Math.max(longestGapMs, performance.now() - last);
      last = performance.now();
    }, 5);
    const endless = Array.from({ length: 6 }, () => short.render({ tokenizer, source: loop(loop('')), messages: [] }));
    const good = short.render({ tokenizer, source: 'fine', messages: [] });
    for (const result of await Promise.allSettled(endless))
      expect(result).toMatchObject({ status: 'rejected', reason: failed(/1000 ms/) });
    expect((await good).text).toBe('fine');
    clearInterval(ticks);
    console.log(`longest gap of the event loop: ${longestGapMs.toFixed(0)} ms`);
    expect(numTicks).toBeGreaterThan(0);
    short.close();
  }, 30_000);
});

describe('good templates', () => {
  test.each([
    ['as many blanks as fit', `${' '.repeat(250_000)}x`],
    ['lines of blanks', `${`${' '.repeat(1_200)}\n`.repeat(200)}x`],
  ])('%s are quickly read', async (_, source) => {
    expect((await render(source)).text).toBe(source);
  });

  test('the same as in this process', async () => {
    const messages = [{ role: 'developer', content: 'd' }, user('a<|im_end|>'), { role: 'assistant', content: 'It' }];
    const tools = [{ type: 'function', function: { name: '<|im_start|>' } }];
    for (const options of [{}, { tools }, { continueFinalMessage: true }, { templateVariables: { x: 1 } }]) {
      const { tokenIds, text } = new ChatTemplate(tokenizer, QWEN).render(messages, options);
      expect(await sandbox.render({ tokenizer, source: QWEN, messages, ...options })).toEqual({
        tokenIds,
        text,
        toolFormat: 'hermes',
      });
    }
  });

  test('the template’s own refusal', async () => {
    await expect(render("{{ raise_exception('no') }}")).rejects.toThrow(failed(/refused the messages: no$/));
    await expect(render('{% if %}')).rejects.toThrow(failed(/failed/));
    await expect(render(CHATML, { continueFinalMessage: true, addGenerationPrompt: true })).rejects.toThrow(
      failed(/cannot both/),
    );
    await expect(render('x', { continueFinalMessage: true })).rejects.toThrow(
      expect.objectContaining({ code: 'tokenizer.final_message_lost' }),
    );
  });

  test('one after the other starts no process', async () => {
    await render(CHATML);
    let numStarted = 0;
    const count = () => void numStarted++;
    subscribe('child_process', count);
    const started = performance.now();
    for (let index = 0; index < 20; index++) await render(CHATML);
    unsubscribe('child_process', count);
    console.log(`a rendering in the sandbox takes ${((performance.now() - started) / 20).toFixed(1)} ms`);
    expect(numStarted).toBe(0);
    // Checks that the subscription works.
    subscribe('child_process', count);
    const other = new TemplateSandbox({ numChildren: 1, timeoutMs: 60_000 });
    await other.render({ tokenizer, source: 'x', messages: [] });
    unsubscribe('child_process', count);
    other.close();
    expect(numStarted).toBe(1);
  });

  test('the sandbox of the process', async () => {
    expect(
      (await renderInSandbox({ tokenizer, source: '{{ messages[0].content }}', messages: [user('x')] })).text,
    ).toBe('x');
  });
});

describe('lifetime', () => {
  test('a wait can be given up', async () => {
    const one = new TemplateSandbox({ numChildren: 1, timeoutMs: 300 });
    const first = one.render({ tokenizer, source: loop(loop('')), messages: [] });
    const controller = new AbortController();
    const second = one.render({ tokenizer, source: 'x', messages: [], signal: controller.signal });
    controller.abort(new Error('gone'));
    await expect(second).rejects.toThrow('gone');
    await expect(one.render({ tokenizer, source: 'x', messages: [], signal: controller.signal })).rejects.toThrow(
      'gone',
    );
    await expect(first).rejects.toThrow(failed(/300 ms/));
    expect((await rendersAgain(one, 'x')).text).toBe('x');
    one.close();
  });

  test('closing ends running and waiting renders, and nothing starts afterwards', async () => {
    const one = new TemplateSandbox({ numChildren: 1, timeoutMs: 10_000 });
    await one.render({ tokenizer, source: 'x', messages: [] });
    const both = [1, 2].map(() => one.render({ tokenizer, source: loop(loop('')), messages: [] }));
    setTimeout(() => one.close(), 50);
    for (const result of await Promise.allSettled(both))
      expect(result).toMatchObject({ status: 'rejected', reason: failed(/closed/) });
    await expect(one.render({ tokenizer, source: 'x', messages: [] })).rejects.toThrow(failed(/closed/));
  });
});
