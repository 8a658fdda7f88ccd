import type { ConstraintSpec } from '@trainyard/constraints';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OPENED, prompt, reading, ReplyHarness, sum, tool, TURNS } from '../testing/reply-harness.ts';
import type { ReplyOptions } from '../testing/reply-harness.ts';

let harness: ReplyHarness;
beforeAll(async () => {
  harness = await ReplyHarness.create();
});
afterAll(() => harness.close());

const reply = (text: string, options: ReplyOptions, source?: string) => harness.reply(text, options, source);

describe('a reply that is read', () => {
  test('gives content, reasoning and calls apart, in deltas and in whole', () => {
    const text = 'I see.</think>Well<tool_call>{"name": "f", "arguments": {"x": 1}}</tool_call>';
    const answer = reply(`<think>${text}`, { reply: reading() });
    expect(sum(answer)).toEqual({ content: 'Well', reasoning: 'I see.', calls: ['f:{"x": 1}'] });
    expect(answer.finished()?.parsed).toEqual({
      content: 'Well',
      reasoning: 'I see.',
      toolCalls: [{ id: expect.stringMatching(/^chatcmpl-tool-[0-9a-f]{16}$/), name: 'f', arguments: '{"x": 1}' }],
    });
    expect(answer.text()).toBe(`<think>${text}`);
    expect(answer.completed?.usage.reasoningTokens).toBe('I see.'.length);
  });

  test('continues the reasoning that its prompt has opened', () => {
    const answer = reply('Hm</think>Yes', { reply: reading({ toolChoice: 'none' }) }, OPENED);
    expect(sum(answer)).toEqual({ content: 'Yes', reasoning: 'Hm', calls: [] });
    expect(answer.completed?.usage.reasoningTokens).toBe(2);
  });

  test('is content if the prompt has closed the block', () => {
    const answer = reply('Hm</think>Yes', {
      reply: reading({ toolChoice: 'none' }),
      prompt: prompt({ enable_thinking: false }),
    });
    expect(sum(answer)).toEqual({ content: 'Hm</think>Yes', reasoning: '', calls: [] });
    expect(answer.completed?.usage.reasoningTokens).toBe(0);
  });

  test('has no parts if there is nothing to separate, or none were requested', () => {
    const plain = reply('<tool_call>', { reply: reading({ toolChoice: 'none' }) }, TURNS);
    expect(plain.finished()).not.toHaveProperty('parsed');
    expect(plain.completed?.usage).not.toHaveProperty('reasoningTokens');
    const unasked = reply('<think>a</think>b', {});
    expect(unasked.finished()).not.toHaveProperty('parsed');
  });

  test('is refused if calls come in an unknown format', () => {
    const unknown = `${TURNS}{% if tools %}{{ tools | tojson }}{{ '<call>' }}{% endif %}`;
    const { failed } = reply('x', { reply: reading() }, unknown);
    expect(failed).toMatchObject({ code: 'engine.invalid_request', param: 'reply.toolChoice' });
    expect(reply('x', { reply: reading({ toolChoice: 'none' }) }, unknown).text()).toBe('x');
  });

  test('of a beam search is read, too', () => {
    const answer = reply('<think>a</think>b', { reply: reading(), beamSearch: { lengthPenalty: 1 }, maxTokens: 8 });
    expect(answer.finished()?.parsed).toMatchObject({ content: 'b', reasoning: 'a' });
  });
});

describe('a choice of tools that forces calls', () => {
  test('`required` holds the reply to a list of calls', () => {
    const answer = reply(
      'No, thanks.',
      { reply: reading({ toolChoice: 'required', tools: [tool('f')], parallelToolCalls: false }) },
      TURNS,
    );
    const { parsed, finishReason } = answer.finished()!;
    expect(parsed?.content).toBe('');
    expect(parsed?.toolCalls).toHaveLength(1);
    expect(parsed?.toolCalls[0]?.name).toBe('f');
    expect(Number.isInteger((JSON.parse(parsed?.toolCalls[0]?.arguments ?? '') as { x: number }).x)).toBe(true);
    expect(finishReason).toBe('stop');
  });

  test('a name holds it to the arguments of that tool', () => {
    const answer = reply('{"x":12}', { reply: reading({ toolChoice: { name: 'g' } }) }, TURNS);
    expect(answer.finished()?.parsed).toMatchObject({
      content: '',
      toolCalls: [{ name: 'g', arguments: '{"x":12}' }],
    });
    expect(answer.text()).toBe('{"x":12}');
  });

  test.each(['required', { name: 'g' }] as const)(
    '%j, with beam search, which knows no constraint: no object, no call',
    (toolChoice) => {
      const answer = reply(
        'Hello',
        { reply: reading({ toolChoice }), beamSearch: { lengthPenalty: 1 }, maxTokens: 5 },
        TURNS,
      );
      expect(answer.finished()?.parsed).toMatchObject({ content: 'Hello', toolCalls: [] });
    },
  );

  test('takes the place of the request’s own constraint', () => {
    const constraint: ConstraintSpec = { kind: 'choice', choices: ['red', 'blue'] };
    expect(reply('red', { constraint }, TURNS).text()).toBe('red');
    expect(reply('red', { constraint, reply: reading({ toolChoice: { name: 'f' } }) }, TURNS).text()).toMatch(
      /^\{\s*"x"/,
    );
  });

  test('that names no tool is refused', () => {
    const { failed } = reply('x', { reply: reading({ toolChoice: { name: 'h' } }) });
    expect(failed).toMatchObject({
      code: 'engine.invalid_request',
      param: 'reply.tools',
      message: expect.stringMatching(/"h".*f, g/),
    });
  });
});

test('a reply that a stop string cuts inside a call ends with `length`', () => {
  const text = '<tool_call>{"name": "f", "arguments": {"x": 12';
  const answer = reply(`${text}34}}`, { reply: reading(), stop: ['34'] }, TURNS);
  expect(answer.finished()).toMatchObject({
    finishReason: 'length',
    stopReason: '34',
    parsed: { content: null, toolCalls: [{ name: 'f', arguments: '{"x": 12' }], isCutOff: true },
  });
  expect(sum(answer).calls).toEqual(['f:{"x": 12']);
});

describe('a constraint on a reply that may reason', () => {
  const constraint: ConstraintSpec = { kind: 'choice', choices: ['yes', 'no'] };
  const asked = { constraint, reply: reading({ toolChoice: 'none' }) };

  test('starts after the reasoning, or at once if the reply does not open any', () => {
    expect(sum(reply('<think>no idea</think>yes', asked))).toMatchObject({ reasoning: 'no idea', content: 'yes' });
    expect(sum(reply('yes', asked))).toMatchObject({ reasoning: '', content: 'yes' });
    expect(sum(reply('perhaps', asked)).content).toMatch(/^(yes|no)$/);
  });

  test('starts after the reasoning that the prompt has opened', () => {
    expect(sum(reply('maybe</think>maybe', asked, OPENED))).toMatchObject({
      reasoning: 'maybe',
      content: expect.stringMatching(/^(yes|no)$/),
    });
  });

  test('starts at once if the prompt has closed the block', () => {
    const answer = reply('<think>a</think>yes', { ...asked, prompt: prompt({ enable_thinking: false }) });
    expect(answer.text()).toMatch(/^(yes|no)$/);
  });
});
