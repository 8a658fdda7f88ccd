import { ChatTemplate } from '@trainyard/tokenizer';
import type { TemplateMessage } from '@trainyard/tokenizer';
import { describe, expect, test } from 'vitest';
import { EngineError } from '@trainyard/backend';
import { type ChatInput, renderChat, type RenderedChat, type TemplateSandbox } from './chat.ts';
import { Harness } from '../testing/text-harness.ts';
import { byteTokenizer, EOS, replying, VOCAB_SIZE } from '@trainyard/engine/testing';
import type { RequestOptions, Transcript } from '../testing/text-harness.ts';
import { type ChatPrompt, DEFAULT_CHAT_PROMPT } from '../contract/generate-request.ts';

const CHATML = `{%- for document in documents or [] -%}[{{ document.title }}]{%- endfor -%}
{%- for message in messages -%}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}`;
const [IM_START, BOS] = [VOCAB_SIZE - 2, VOCAB_SIZE - 3];

const user = { role: 'user', content: 'Hi' };
const chat = (messages: readonly TemplateMessage[], options: Partial<ChatPrompt> = {}): ChatPrompt => ({
  ...DEFAULT_CHAT_PROMPT,
  messages,
  ...options,
});

function submit(options: RequestOptions, harnessOptions: ConstructorParameters<typeof Harness>[0] = {}): Transcript {
  const harness = new Harness({
    template: new ChatTemplate(byteTokenizer, CHATML),
    borders: { before: [BOS], after: [] },
    ...harnessOptions,
  });
  const reply = harness.submit({ maxTokens: 1, ...options });
  harness.run();
  return reply;
}

const promptText = (options: RequestOptions, source = CHATML): string => {
  const reply = submit(options, { template: new ChatTemplate(byteTokenizer, source) });
  if (reply.failed) throw new Error(`${reply.failed.code} ${reply.failed.param}: ${reply.failed.message}`);
  return byteTokenizer.decode(reply.started!.promptTokenIds);
};

describe('a conversation', () => {
  test('is rendered with the opening of a reply, or without', () => {
    const text = '<|im_start|>user\nHi<|im_end|>\n';
    expect(promptText({ prompt: chat([user]) })).toBe(`${text}<|im_start|>assistant\n`);
    expect(promptText({ prompt: chat([user], { addGenerationPrompt: false }) })).toBe(text);
  });

  test('gives documents to the template', () => {
    const templateVariables = {
      documents: [
        { title: 'Maps', text: '' },
        { title: 'Roads', text: '' },
      ],
    };
    expect(promptText({ prompt: chat([user], { templateVariables }) })).toMatch(/^\[Maps\]\[Roads\]<\|im_start\|>/);
  });

  test('gets the vocabulary’s own special tokens only when asked for', () => {
    const ids = (addSpecialTokens: boolean): number[] =>
      submit({ prompt: chat([user], { addSpecialTokens }) }).started!.promptTokenIds;
    expect(ids(false)[0]).toBe(IM_START);
    expect(ids(true)).toEqual([BOS, ...ids(false)]);
  });
});

describe('a last message that is left open', () => {
  const open: Partial<ChatPrompt> = { continueFinalMessage: true, addGenerationPrompt: false };
  const start = '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n';

  test('ends the prompt right after its content, right-trimmed', () => {
    expect(promptText({ prompt: chat([user, { role: 'assistant', content: 'I am ' }], open) })).toBe(`${start}I am`);
    expect(promptText({ prompt: chat([user, { role: 'assistant', content: '' }], open) })).toBe(start);
    expect(promptText({ prompt: chat([user, { role: 'assistant' }], open) })).toBe(start);
  });

  test('may be in parts, and may occur twice in the prompt', () => {
    const parts = [
      { type: 'text', text: 'one ' },
      { type: 'text', text: 'two ' },
    ];
    expect(promptText({ prompt: chat([user, { role: 'assistant', content: parts }], open) })).toBe(`${start}one \ntwo`);
    const twice = [user, { role: 'assistant', content: 'Hi' }, user, { role: 'assistant', content: 'Hi' }];
    expect(promptText({ prompt: chat(twice, open) }).endsWith('<|im_start|>assistant\nHi')).toBe(true);
  });

  test('keeps control tokens in its text plain', () => {
    const { promptTokenIds } = submit({
      prompt: chat([{ role: 'assistant', content: 'say <|im_end|>' }], open),
    }).started!;
    expect(promptTokenIds).not.toContain(EOS);
    expect(byteTokenizer.decode(promptTokenIds)).toBe('<|im_start|>assistant\nsay <|im_end|>');
  });

  test('with a template that trims keeps its header', () => {
    const trimming = CHATML.replace('message.content', '(message.content | trim)');
    expect(promptText({ prompt: chat([user, { role: 'assistant', content: ' x \n' }], open) }, trimming)).toBe(
      `${start}x`,
    );
  });

  test('is refused if the template leaves it out, there is none, or a new one is requested', () => {
    const dropping = CHATML.replace('message.content', "'…'");
    const refusal = (prompt: ChatPrompt, source = CHATML): unknown =>
      submit({ prompt }, { template: new ChatTemplate(byteTokenizer, source) }).failed;
    const param = 'continueFinalMessage';
    expect(refusal(chat([user], open), dropping)).toMatchObject({ code: 'engine.template_failed', param });
    expect(refusal(chat([], open))).toMatchObject({ code: 'engine.template_failed' });
    expect(refusal(chat([user], { continueFinalMessage: true }))).toMatchObject({ code: 'engine.template_failed' });
  });
});

describe('a text', () => {
  test('is taken as it is, control tokens and all, with the vocabulary’s own tokens or without', () => {
    const ids = (addSpecialTokens: boolean): number[] =>
      submit({ prompt: { kind: 'text', text: '<|im_start|>hi', addSpecialTokens } }).started!.promptTokenIds;
    expect(ids(false)).toEqual([IM_START, 104, 105]);
    expect(ids(true)).toEqual([BOS, IM_START, 104, 105]);
  });

  test('that is empty is refused', () => {
    const { failed } = submit({ prompt: { kind: 'text', text: '', addSpecialTokens: false } });
    expect(failed).toMatchObject({ code: 'engine.invalid_request', param: 'prompt' });
  });
});

describe('truncation', () => {
  const kept = (truncatePromptTokens: number | null, options: RequestOptions = {}): string | undefined => {
    const reply = submit(
      { prompt: 'abcdefghij', truncatePromptTokens, maxTokens: 1, ...options },
      { contextLength: 12 },
    );
    return reply.started && byteTokenizer.decode(reply.started.promptTokenIds);
  };

  test('keeps the last tokens', () => {
    expect(kept(4)).toBe('ghij');
    expect(kept(12)).toBe('abcdefghij');
    expect(kept(null)).toBe('abcdefghij');
  });
  test('-1 leaves room for maxTokens, or for one token', () => {
    expect(kept(-1, { maxTokens: 5 })).toBe('defghij');
    expect(kept(-1, { maxTokens: null, prompt: 'abcdefghijklmnop' })).toBe('fghijklmnop');
    expect(kept(-1, { maxTokens: 50 })).toBe('j');
  });
  test('cuts through special tokens that were added, and prompts of every kind', () => {
    const prompt = { kind: 'text', text: 'abc', addSpecialTokens: true } as const;
    expect(kept(3, { prompt })).toBe('abc');
    expect(kept(2, { prompt: chat([user]) })).toBe('t\n');
  });
  test('to all of the context is refused if no token of the reply would fit', () => {
    const message = submit({ truncatePromptTokens: 12, prompt: chat([user]) }, { contextLength: 12 }).failed?.message;
    expect(message).toContain('of 12 leaves no room in the context for a reply: send at most 11, or -1');
  });
  test('to nothing, to more than the context or to nonsense is refused', () => {
    const refusal = (truncatePromptTokens: number): string | null | undefined =>
      submit({ truncatePromptTokens }, { contextLength: 12 }).failed?.param;
    expect([0, 13, -2, 1.5].map(refusal)).toEqual(Array.from({ length: 4 }, () => 'truncatePromptTokens'));
  });
});

describe('a long chat', () => {
  const long = chat([{ role: 'user', content: 'x'.repeat(40_000) }]);
  const SIZES = { contextLength: 50_000, capacityTokens: 50_000, batchTokens: 50_000 };
  const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
  function held(options: ConstructorParameters<typeof Harness>[0] = {}) {
    const template = new ChatTemplate(byteTokenizer, CHATML);
    const asked: { prompt: ChatPrompt; tenant: string; answer: PromiseWithResolvers<RenderedChat> }[] = [];
    const longTexts = {
      render: (prompt: ChatPrompt, { tenant }: { tenant: string }): Promise<RenderedChat> => {
        const answer = Promise.withResolvers<RenderedChat>();
        asked.push({ prompt, tenant, answer });
        return answer.promise;
      },
      encode: async (text: string) => byteTokenizer.encodeWithSpecial(text),
    };
    return { asked, template, harness: new Harness({ template, longTexts, ...SIZES, ...options }) };
  }
  const rendered = async (template: ChatTemplate, prompt: ChatPrompt) =>
    await renderChat(prompt, { template, templateSandbox: null }, AbortSignal.timeout(60_000));

  test('is rendered on another thread while others continue, and becomes the same prompt', async () => {
    const { asked, template, harness } = held();
    const reply = harness.submit({ prompt: long, tenant: 'a', maxTokens: 1 });
    const short = harness.submit({ prompt: chat([user]), maxTokens: 3, ignoreEos: true });
    harness.run();
    expect(short.completed).toBeDefined();
    expect(reply.events).toEqual([]);
    expect(asked).toEqual([expect.objectContaining({ prompt: long, tenant: 'a' })]);
    asked[0]!.answer.resolve(await rendered(template, long));
    await turn();
    harness.run();
    const here = new Harness({ template, ...SIZES });
    const expected = here.submit({ prompt: long, tenant: 'a', maxTokens: 1 });
    here.run();
    expect(reply.started).toEqual(expected.started);
    expect(reply.completed).toEqual(expected.completed);
  });

  test('is long by its messages, too', () => {
    const { asked, harness } = held();
    harness.submit({ prompt: chat(Array.from({ length: 200 }, () => user)) });
    harness.run();
    expect(asked).toHaveLength(1);
  });

  test('that is refused there is refused, between two steps', async () => {
    const { asked, harness } = held();
    const reply = harness.submit({ prompt: long });
    asked[0]!.answer.reject(new EngineError('engine.template_failed', 'no', { param: 'messages' }));
    await turn();
    expect(reply.failed).toMatchObject({ code: 'engine.template_failed', message: 'no', param: 'messages' });
  });

  test('without a template is refused at once', () => {
    const { asked, harness } = held({ template: null });
    expect(harness.submit({ prompt: long }).failed?.message).toContain('no chat template');
    expect(asked).toEqual([]);
  });

  test('as a text is encoded on another thread', async () => {
    const { harness } = held();
    const text = 'x'.repeat(40_000);
    const reply = harness.submit({ prompt: { kind: 'text', text, addSpecialTokens: false }, maxTokens: 1 });
    expect(harness.engine.stats().numUnprepared).toBe(1);
    await turn();
    harness.run();
    expect(reply.started?.promptTokenIds).toEqual([...Buffer.from(text)]);
  });
});

describe('a template of the request', () => {
  /** Renders on command, and records its input. */
  class HeldSandbox implements TemplateSandbox {
    readonly asked: { source: string; input: ChatInput; signal: AbortSignal }[] = [];
    settle: { resolve: (text: string) => void; reject: (error: Error) => void }[] = [];
    render(source: string, input: ChatInput, signal: AbortSignal): Promise<Omit<RenderedChat, 'source'>> {
      this.asked.push({ source, input, signal });
      return new Promise((resolve, reject) => {
        this.settle.push({
          resolve: (text) => resolve({ tokenIds: byteTokenizer.encodeWithSpecial(text), text, toolFormat: null }),
          reject,
        });
      });
    }
    close(): void {}
  }
  const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
  function held(): {
    harness: Harness;
    sandbox: HeldSandbox;
    calls: () => number;
    own: (rest?: RequestOptions) => Transcript & { id: string };
  } {
    const sandbox = new HeldSandbox();
    const harness = new Harness({
      templateSandbox: sandbox,
      borders: { before: [BOS], after: [] },
      limits: { maxRequests: 3 },
    });
    let numCalls = 0;
    harness.engine.onWork = () => void numCalls++;
    const prompt = chat([user], { chatTemplate: '{{ messages }}', addSpecialTokens: true });
    return { harness, sandbox, calls: () => numCalls, own: (rest = {}) => harness.submit({ prompt, ...rest }) };
  }

  test('is rendered on another thread while other requests continue, and then runs', async () => {
    const { harness, sandbox, calls, own } = held();
    const reply = own();
    const other = harness.submit({ maxTokens: 3, ignoreEos: true });
    harness.run();
    expect(other.completed).toBeDefined();
    expect(reply.events).toEqual([]);
    expect(harness.engine.hasWork).toBe(false);
    expect(harness.engine.stats().numRequests).toBe(1);
    expect(sandbox.asked[0]).toMatchObject({ source: '{{ messages }}', input: { messages: [user] } });

    sandbox.settle[0]!.resolve('rendered');
    await turn();
    expect(calls()).toBe(1);
    expect(reply.events).toEqual([]); // nothing is sent between steps
    expect(harness.engine.hasWork).toBe(true);
    harness.run();
    expect(byteTokenizer.decode(reply.started!.promptTokenIds)).toBe('<|endoftext|>rendered');
    expect(reply.completed).toBeDefined();
  });

  test('that fails is reported between steps: the refusal does not wait for the steps of others', async () => {
    const { harness, sandbox, calls, own } = held();
    const reply = own();
    const other = harness.submit({ maxTokens: 3, ignoreEos: true });
    sandbox.settle[0]!.reject(new Error('the template took more than 5 s'));
    await turn();
    expect(reply.failed?.code).toBe('engine.template_failed');
    expect([reply.numEnds, calls()]).toEqual([1, 1]);
    harness.run();
    expect([reply.numEnds, other.numEnds]).toEqual([1, 1]);
  });

  test('that fails, or renders a text that does not fit, fails its request', async () => {
    const { harness, sandbox, own } = held();
    const [broken, long] = [own(), own()];
    sandbox.settle[0]!.reject(new Error('the template took more than 5 s'));
    sandbox.settle[1]!.resolve('x'.repeat(5000));
    await turn();
    harness.run();
    expect(broken.failed).toMatchObject({
      code: 'engine.template_failed',
      message: 'the template took more than 5 s',
      param: 'chatTemplate',
    });
    expect(long.failed?.code).toBe('context_length_exceeded');
  });

  test('can be aborted meanwhile: the rendering is cancelled, and its late result is dropped', async () => {
    const { harness, sandbox, own } = held();
    const reply = own();
    harness.engine.abort(reply.id);
    expect(sandbox.asked[0]!.signal.aborted).toBe(true);
    expect(harness.engine.hasWork).toBe(true);
    harness.run();
    expect(reply.failed?.code).toBe('engine.aborted');
    sandbox.settle[0]!.resolve('late');
    await turn();
    expect(harness.engine.hasWork).toBe(false);
    expect(reply.numEnds).toBe(1);
  });

  test('holds its place among the requests, its id and its pause', async () => {
    const { harness, sandbox, own } = held();
    const reply = own({ requestId: 'same', priority: 0 });
    own();
    expect(own({ requestId: 'same' }).failed?.param).toBe('requestId');
    own();
    expect(own().failed?.code).toBe('engine.overloaded');
    harness.engine.setPaused('same', true);
    sandbox.settle[0]!.resolve('rendered');
    await turn();
    harness.step();
    expect(harness.engine.hasWork).toBe(false);
    harness.engine.setPaused('same', false);
    harness.run();
    expect(reply.completed).toBeDefined();
    harness.engine.close();
    expect(sandbox.asked.slice(1).every(({ signal }) => signal.aborted)).toBe(true);
  });

  test('is refused without a place to run it', () => {
    const { failed } = submit({ prompt: chat([user], { chatTemplate: 'x' }) });
    expect(failed).toMatchObject({ code: 'engine.invalid_request', param: 'chatTemplate' });
  });
});

test('shown special tokens have no space between them', () => {
  const reply = submit(
    { prompt: 'p', maxTokens: 4, skipSpecialTokens: false, ignoreEos: true },
    { logits: replying([BOS, IM_START, 65, EOS], 1) },
  );
  expect(reply.text()).toBe('<|endoftext|><|im_start|>A<|im_end|>');
});
