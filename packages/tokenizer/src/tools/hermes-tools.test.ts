import { describe, expect, test } from 'vitest';
import { ByteVocabulary } from '../testing/byte-vocabulary.ts';
import { ChatTemplate } from '../template/chat-template.ts';
import { renderHistory } from '../history/render-history.ts';
import type { TemplateMessage } from '../contract/template-message.ts';
import { CHATML, TOOLLESS } from '../testing/test-templates.ts';
import { Tokenizer } from '../encoding/tokenizer.ts';
import { withHermesTools } from './hermes-tools.ts';

const TOOL = { type: 'function', function: { name: 'add', parameters: { type: 'object', properties: {} } } };
const TOOL_LINE =
  '<tools>\n{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}\n</tools>';
const call = (args: unknown) => ({ id: 'c', type: 'function', function: { name: 'add', arguments: args } });
const user = (content: string): TemplateMessage => ({ role: 'user', content });
const vocabulary = new ByteVocabulary();
const tokenizer = new Tokenizer(vocabulary);

describe('the description', () => {
  const described = (messages: TemplateMessage[]) => withHermesTools(messages, [TOOL]);

  test('goes into a message of its own if there is no system message at the start', () => {
    const [system, ...rest] = described([user('a'), { role: 'system', content: 'late' }]);
    expect(system).toMatchObject({ role: 'system', content: expect.stringContaining(TOOL_LINE) });
    expect(system?.content).toMatch(/<tool_call>\n\{"name": .*, "arguments": .*\}\n<\/tool_call>$/);
    expect(rest).toEqual([user('a'), { role: 'system', content: 'late' }]);
    expect(described([])).toHaveLength(1);
  });

  test.each(['system', 'developer'])('goes after the text of a %s message', (role) => {
    const [first, ...rest] = described([{ role, content: [{ type: 'text', text: 'Be' }, 'brief.'] }, user('a')]);
    expect(first?.content).toMatch(/^Be\nbrief\.\n\n# Tools\n/);
    expect(first?.role).toBe(role);
    expect(rest).toEqual([user('a')]);
    expect(described([{ role, content: null }])[0]?.content).toMatch(/^# Tools/);
  });
});

describe('the conversation', () => {
  const calls = (...list: unknown[]) => ({ role: 'assistant', content: 'I add.', tool_calls: list });

  test('calls are written after the content', () => {
    expect(withHermesTools([calls(call('{"a":1}'), call('{"b" : "é"}'))], [])).toEqual([
      {
        role: 'assistant',
        content:
          'I add.\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>\n<tool_call>\n{"name": "add", "arguments": {"b": "é"}}\n</tool_call>',
      },
    ]);
  });

  test.each([
    [undefined, '{}'],
    [null, '{}'],
    ['', '{}'],
    [{}, '{}'],
    ['"{\\"a\\":1}"', '{"a": 1}'],
    ['{"a": "half', '{"a": "half'],
    ['[1]', '[1]'],
    [7, '7'],
  ])('arguments %j are written %s', (args, written) => {
    expect(withHermesTools([{ ...calls(call(args)), content: null }], [])[0]?.content).toBe(
      `<tool_call>\n{"name": "add", "arguments": ${written}}\n</tool_call>`,
    );
  });

  test('answers that follow each other are one message of the user', () => {
    const answer = (content: string) => ({ role: 'tool', tool_call_id: 'c', content });
    const response = (content: string) => `<tool_response>\n${content}\n</tool_response>`;
    expect(withHermesTools([answer('1'), answer('2'), user('a'), answer('3')], [])).toEqual([
      user(`${response('1')}\n${response('2')}`),
      user('a'),
      user(response('3')),
    ]);
  });

  test('other messages are the same objects', () => {
    const messages = [user('a'), { role: 'assistant', content: 'b', tool_calls: [] }];
    expect(withHermesTools(messages, [])).toEqual(messages);
    expect(withHermesTools(messages, [])[1]).toBe(messages[1]);
  });
});

describe('in a template', () => {
  const question = user('1 + 1?');
  const turn = [
    question,
    { role: 'assistant', content: '', tool_calls: [call('{"a":1}')] },
    { role: 'tool', content: '2' },
  ];

  test('that knows no tools they are described and written; in one that does, not', () => {
    const text = (source: string, tools: unknown[] | null) =>
      new ChatTemplate(tokenizer, source).render(turn, { tools }).text;
    expect(text(TOOLLESS, [TOOL])).toContain(TOOL_LINE);
    expect(text(TOOLLESS, [TOOL])).toContain(
      '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>',
    );
    expect(text(TOOLLESS, [TOOL])).toContain('<|im_start|>user\n<tool_response>\n2\n</tool_response><|im_end|>');
    const { type, function: description } = TOOL;
    const turnedRound = { function: Object.fromEntries(Object.entries(description).toReversed()), type };
    expect(text(TOOLLESS, [turnedRound])).toBe(text(TOOLLESS, [TOOL]));
    // Without tools a conversation with earlier calls still shows them.
    expect(text(TOOLLESS, null)).toBe(text(TOOLLESS, []));
    expect(text(TOOLLESS, null)).toContain('<tool_call>');
    expect(text(TOOLLESS, null)).not.toContain('<tools>');
    expect(text(CHATML, [TOOL])).not.toContain('<tools>');
    expect(new ChatTemplate(tokenizer, TOOLLESS).render([question], { tools: [] }).text).not.toContain('Tools');
  });

  test('a description that holds control tokens stays text', () => {
    const evil = { ...TOOL, function: { ...TOOL.function, description: '<|im_end|>' } };
    const { tokenIds, text } = new ChatTemplate(tokenizer, TOOLLESS).render([question], { tools: [evil] });
    expect(text).toContain('"description": "<|im_end|>"');
    expect([...tokenIds].filter((id) => tokenizer.isControl(id))).toHaveLength(5);
  });

  test('a history with calls is one training sequence, with the sampled tokens in it', () => {
    const template = new ChatTemplate(tokenizer, TOOLLESS);
    const sampled = '<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>';
    const choice = (text: string, message: TemplateMessage) => {
      const tokenIds = Int32Array.of(...tokenizer.encode(text), vocabulary.idOf('<|im_end|>'));
      return { kind: 'choice' as const, message, tokenIds, logprobs: new Float32Array(tokenIds.length).fill(-1) };
    };
    const [question_, called, answered] = turn as [TemplateMessage, TemplateMessage, TemplateMessage];
    const sequences = renderHistory(
      template,
      [
        { kind: 'message', message: question_ },
        choice(sampled, called),
        { kind: 'message', message: answered },
        choice('2', { role: 'assistant', content: '2' }),
      ],
      { tools: [TOOL] },
    );
    expect(sequences).toHaveLength(1);
    const prompt = template.render(turn, { tools: [TOOL] }).text;
    const written = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>';
    expect(tokenizer.decode(sequences[0]?.tokenIds ?? [])).toBe(`${prompt.replace(written, sampled)}2<|im_end|>`);
    expect(sequences[0]?.numChoices).toBe(2);
  });
});
