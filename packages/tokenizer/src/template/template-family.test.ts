import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import {
  ChatTemplate,
  randomToolCallId,
  ReplyParser,
  TemplateSandbox,
  Tokenizer,
  TokenizerError,
  type RenderOptions,
  type TemplateMessage,
} from '../index.ts';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';
import { assistant, CONVERSATIONS, FAMILIES, TOOL, toolCall, user } from '../testing/template-families.ts';
import { CHATML, PARTS, THINKING } from '../testing/test-templates.ts';

// Enough time for a busy machine.
const sandbox = new TemplateSandbox({ timeoutMs: 60_000 });
afterAll(() => sandbox.close());

const FAMILY_NAMES = Object.keys(FAMILIES);
function open(name: string) {
  const family = FAMILIES[name];
  if (family === undefined) throw new Error(name);
  const vocabulary = new ByteVocabulary({ controlTokens: family.controlTokens, endToken: family.end });
  const tokenizer = new Tokenizer(vocabulary, { maxTextBytes: 1e6 });
  return { ...family, tokenizer, template: new ChatTemplate(tokenizer, family.source) };
}

describe.each(FAMILY_NAMES)('%s', (name) => {
  const { template, tokenizer, format, end, source, ...family } = open(name);
  const refuses = (error: unknown) =>
    error instanceof TokenizerError && error.code === 'tokenizer.template_failed' && /refused/.test(error.message);

  test('how it writes calls', () => {
    expect(template.toolFormat).toBe(format);
    expect(template.toolSupport).toEqual({ writesTools: !family.isToolless, writesCalls: !family.isToolless });
  });

  test.each(Object.entries(CONVERSATIONS))(
    '%s: same prompt in the sandbox; control tokens are the template’s',
    async (about, messages) => {
      for (const options of [
        {},
        { tools: [TOOL] },
        { addGenerationPrompt: false, templateVariables: { x: '<|im_end|>' } },
      ] satisfies RenderOptions[]) {
        const inSandbox = sandbox.render({ tokenizer, source, messages, ...options });
        let prompt;
        try {
          prompt = template.render(messages, options);
        } catch (error) {
          if (!refuses(error)) throw error;
          expect(family.hasSingleCalls && about === 'two calls').toBe(true); // one call per message, as the template requires
          await expect(inSandbox).rejects.toThrow((error as Error).message);
          continue;
        }
        expect(await inSandbox).toEqual({ ...prompt, toolFormat: format });
        expect(tokenizer.decode(prompt.tokenIds)).toBe(prompt.text);
        for (const { content } of messages) if (typeof content === 'string') expect(prompt.text).toContain(content);
        for (const city of messages.some(({ tool_calls }) => tool_calls !== undefined) ? ['Paris', 'get_weather'] : [])
          expect(prompt.text).toContain(city);
        const harmless = messages.map((message) => (about === 'attack' ? { ...message, content: 'x' } : message));
        const controls = (ids: Int32Array) => [...ids].filter((id) => tokenizer.isControl(id));
        expect(controls(prompt.tokenIds)).toEqual(controls(template.render(harmless, options).tokenIds));
      }
    },
  );

  test('a call comes back as it was', () => {
    fc.assert(
      fc.property(
        fc.array(callArguments, { minLength: 1, maxLength: family.hasSingleCalls ? 1 : 3 }),
        fc.constantFrom('', 'Let me see.'),
        (list, content) => {
          const visible = family.dropsTextOfCalls ? '' : content;
          const calls = list.map((args, index) => toolCall(`abcdefgh${index}`, args));
          const options = { tools: [TOOL], addGenerationPrompt: false };
          const question = [user('Weather?')];
          const prompt = template.render(question, { tools: [TOOL] }).text;
          const whole = template.render([...question, assistant(visible, ...calls)], options).text;
          expect(whole.startsWith(prompt)).toBe(true);
          // GLM writes no end, and a call of gpt-oss has another.
          const endsAt = whole.indexOf(end, prompt.length);
          const reply = endsAt < 0 ? whole.slice(prompt.length) : whole.slice(prompt.length, endsAt);
          const parser = new ReplyParser({
            tools: [TOOL],
            toolFormat: format,
            parallelToolCalls: true,
            reasoning: null,
            toolCallId: () => randomToolCallId(format),
          });
          let streamed = '';
          for (const piece of reply.match(/[^]{1,7}/g) ?? [])
            streamed += parser
              .push(piece)
              .toolCalls.map((delta) => delta.arguments)
              .join('');
          const parsed = parser.result();
          expect((parsed.content ?? '').trim()).toBe(visible);
          expect(parsed.toolCalls.map((call) => call.name)).toEqual(list.map(() => 'get_weather'));
          expect(parsed.toolCalls.map((call) => JSON.parse(call.arguments) as unknown)).toEqual(list);
          expect(streamed).toBe(parsed.toolCalls.map((call) => call.arguments).join(''));
        },
      ),
      { numRuns: 60 },
    );
  });

  test('a final message that is continued', () => {
    const messages = [user('One?'), assistant('I think'), user('Two?'), assistant('It is')];
    const options = { continueFinalMessage: true, tools: [TOOL] };
    const { text, tokenIds } = template.render(messages, options);
    // Some templates put the tools in the last user message, so compare the beginning with the same conversation.
    expect(text).toBe(
      template
        .render(messages, { addGenerationPrompt: false, tools: [TOOL] })
        .text.replace(new RegExp(`${escape(end)}\\n?$`), ''),
    );
    expect(text.endsWith('It is')).toBe(true);
    expect(tokenizer.decode(tokenIds)).toBe(text);
  });
});

const text = fc
  .string({
    unit: fc.oneof(
      fc.constantFrom(...'<>{}[]"\'\\,:() \n'.split(''), 'é', '😀'),
      fc.string({ minLength: 1, maxLength: 1 }),
    ),
  })
  .filter((value) => !/<\/?(parameter|function)/.test(value));
const callArguments = fc.record(
  {
    city: text,
    days: fc.integer(),
    exact: fc.boolean(),
    hours: fc.array(fc.oneof(fc.integer(), text, fc.constant(null)), { maxLength: 3 }),
    place: fc.dictionary(fc.stringMatching(/^[a-z]{1,4}$/), fc.oneof(text, fc.boolean()), {
      maxKeys: 3,
      noNullPrototype: true,
    }),
    unit: fc.constantFrom(null, 'c'),
  },
  { requiredKeys: [], noNullPrototype: true },
);

function escape(literal: string): string {
  return literal.replace(/[|[\]/]/g, String.raw`\$&`);
}

describe('continuing the final message', () => {
  const tokenizer = new Tokenizer(new ByteVocabulary());
  const render = (source: string, messages: TemplateMessage[], options: RenderOptions = {}) =>
    new ChatTemplate(tokenizer, source).render(messages, { continueFinalMessage: true, ...options }).text;
  const failed = (message: RegExp) =>
    expect.objectContaining({ code: 'tokenizer.template_failed', message: expect.stringMatching(message) });

  test('white space at its end stays if the template keeps it', () => {
    expect(render(CHATML, [assistant('a \n')])).toBe('<|im_start|>assistant\na \n');
    expect(render('{{ messages[0].content | trim }}', [assistant(' a \n')])).toBe('a');
  });

  test('the end of the message counts, not an earlier place with the same text', () => {
    const turns = '<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\na';
    expect(render(CHATML, [user('a'), assistant('a'), user('a'), assistant('a')])).toBe(`${turns}<|im_end|>\n${turns}`);
  });

  test('parts, and no content at all', () => {
    expect(render(PARTS, [{ role: 'assistant', content: [{ type: 'text', text: 'a' }, 'b'] }])).toBe(
      '<|im_start|>assistant\nab',
    );
    expect(render(PARTS, [assistant(null)])).toBe('<|im_start|>assistant\n');
    expect(render(CHATML, [assistant(null)])).toBe('<|im_start|>assistant\n');
  });

  test('text in front of an answer that has reasoning', () => {
    expect(render(THINKING, [user('q'), { role: 'assistant', content: 'The', reasoning: 'hm' }])).toMatch(
      /<think>\nhm\n<\/think>\n\nThe$/,
    );
  });

  test('text of the user gives no control token here either', () => {
    const { tokenIds } = new ChatTemplate(tokenizer, CHATML).render([assistant('a<|im_')], {
      continueFinalMessage: true,
    });
    expect([...tokenIds].filter((id) => tokenizer.isControl(id))).toHaveLength(1);
    expect(tokenizer.decode(tokenIds)).toBe('<|im_start|>assistant\na<|im_');
  });

  test('errors', () => {
    expect(() => render(CHATML, [assistant('a')], { addGenerationPrompt: true })).toThrow(
      failed(/add_generation_prompt to false/),
    );
    expect(() => render(CHATML, [])).toThrow(failed(/no final message/));
    expect(() => render('{{ messages | length }}', [assistant('a')])).toThrow(
      expect.objectContaining({ code: 'tokenizer.final_message_lost' }),
    );
  });
});
