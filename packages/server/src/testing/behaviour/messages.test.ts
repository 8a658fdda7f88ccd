/** Reference §1.1: messages, from the body to the prompt. */
import { afterAll, beforeAll, describe, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import { ScriptedService } from '../scripted-service.ts';

/** Renders all that a template receives of a message. */
const SHOWN = `{%- for m in messages -%}
{{ m.role }}{% if m.name %}, {{ m.name }}{% endif %}{% if m.tool_call_id %} to {{ m.tool_call_id }}{% endif %}: {{ m.content }}
{%- if 'tool_calls' in m %} calls {{ m.tool_calls | tojson }}{% endif -%}
{%- if m.reasoning %} because {{ m.reasoning }}={{ m.reasoning_content }}{% endif -%};
{%- endfor -%}`;
/** Accepts only parts: letters of a text are not parts. */
const PARTS = `{%- for m in messages -%}{{ m.role }}:
{%- if m.role == 'tool' -%}{{ m.content }}{%- else -%}{%- for part in m.content -%}<{{ part | tojson }}>{%- endfor -%}{%- endif -%};
{%- endfor -%}`;
const TEXT_OR_PARTS = PARTS.replace(`m.role == 'tool'`, 'm.content is string');

let service: ScriptedService;
let partial: ScriptedService;
let either: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open({ template: SHOWN });
  partial = await ScriptedService.open({ template: PARTS });
  either = await ScriptedService.open({ template: TEXT_OR_PARTS });
});
afterAll(async () => {
  await service.close();
  await partial.close();
  await either.close();
});

const user = (content: unknown) => ({ role: 'user', content });
const call = (args: unknown, more = {}) => ({
  id: '1',
  type: 'function',
  function: { name: 'f', arguments: args },
  ...more,
});
const calling = (...calls: unknown[]) => ({ role: 'assistant', content: 'x', tool_calls: calls });
const shownCall = (args: string) =>
  `assistant: x calls [{"id": "1", "type": "function", "function": {"name": "f", "arguments": ${args}}}];`;

// prettier-ignore
const RENDERED: readonly [about: string, messages: readonly unknown[], prompt: string][] = [
  ['a role of its own', [{ role: 'critic', content: 'x' }], 'critic: x;'],
  ['no content', [{ role: 'user' }], 'user: ;'],
  ['null content of an assistant', [{ role: 'assistant', content: null }], 'assistant: ;'],
  ['a name', [{ role: 'user', content: 'x', name: 'Ann' }], 'user, Ann: x;'],
  ['the id of an answered call', [{ role: 'tool', content: 'x', tool_call_id: '7' }], 'tool to 7: x;'],
  ['no id of an answered call', [{ role: 'tool', content: 'x' }], 'tool: x;'],
  ['a developer in front, as system', [{ role: 'developer', content: 'b' }, { role: 'system', content: 'c' }, user('a')], 'system: b\n\nc;user: a;'],
  ['a developer after a turn, as system in its place', [user('a'), { role: 'developer', content: 'b' }], 'user: a;system: b;'],
  ['arguments as an object', [calling(call('{"x": 1}'))], shownCall('{"x": 1}')],
  ['no arguments', [calling(call(''))], shownCall('{}')],
  ['arguments that are no JSON', [calling(call('{"x'))], shownCall(String.raw`"{\"x"`)],
  ['arguments that are no object', [calling(call('[1]'))], shownCall('"[1]"')],
  ['arguments that are the text of an object', [calling(call(JSON.stringify('{"x": 1.0}')))], shownCall('{"x": 1.0}')],
  ['an empty list of calls', [calling()], 'assistant: x;'],
  ['null calls', [{ role: 'assistant', content: 'x', tool_calls: null }], 'assistant: x;'],
  ['reasoning under both names', [{ role: 'assistant', content: 'x', reasoning: 'r' }], 'assistant: x because r=r;'],
  ['reasoning_content under both names', [{ role: 'assistant', content: 'x', reasoning_content: 'r' }], 'assistant: x because r=r;'],
  ['a list of one text as that text', [user([{ type: 'text', text: 'x' }])], 'user: x;'],
  ['text of every kind, a line each', [user(['a', { type: 'text', text: 'b' }, { type: 'input_text', text: 'c' }, { type: 'output_text', text: 'd' }, { type: 'refusal', refusal: 'e' }, { type: 'thinking', thinking: 'f' }])], 'user: a\nb\nc\nd\ne\nf;'],
  ['a part without a type', [user([{ text: 'x' }])], 'user: x;'],
  ['a part with null text', [user([{ type: 'text', text: null }, 'x'])], 'user: x;'],
  ['system parts', [{ role: 'system', content: [{ type: 'text', text: 'a' }, 'b'] }], 'system: a\nb;'],
  ['a header line in a system message', [{ role: 'system', content: 'x-anthropic-billing-header: 1\nb' }], 'system: x-anthropic-billing-header: 1\nb;'],
];

describe('a template that takes text is given', () => {
  test.each(RENDERED)('%s', async (_about, messages, prompt) => {
    expect(await service.prompt({ messages })).toBe(prompt);
  });
});

describe('a template that iterates over content is given', () => {
  const parts = ['a', { type: 'input_text', text: 'b' }];
  const messages = [user(parts), { role: 'tool', content: parts }, user('c')];

  test('parts, and a tool’s parts as one text', async () => {
    expect(await partial.prompt({ messages })).toBe(
      'user:<{"type": "text", "text": "a"}><{"type": "text", "text": "b"}>;tool:a\nb;user:<{"type": "text", "text": "c"}>;',
    );
  });

  test('texts, if it takes a text too', async () => {
    expect(await either.prompt({ messages })).toBe('user:a\nb;tool:a\nb;user:c;');
  });
});

describe('refused', () => {
  // prettier-ignore
  test.each<[string, unknown, string]>([
    ['a message that is a string', 'hello', '400 messages.0'],
    ['a role that is no string', { role: 5, content: 'x' }, '400 messages.0.role'],
    ['null content of a user', user(null), '400 messages.0.content'],
    ['null content of a tool', { role: 'tool', content: null }, '400 messages.0.content'],
    ['a call without an id', calling({ ...call('{}'), id: undefined }), '400 messages.0.tool_calls.0.id'],
    ['a call without a type', calling({ ...call('{}'), type: undefined }), '400 messages.0.tool_calls.0.type'],
    ['a call of another type', calling(call('{}', { type: 'custom' })), '400 messages.0.tool_calls.0.type'],
    ['a call without a function', calling({ id: '1', type: 'function' }), '400 messages.0.tool_calls.0.function'],
    ['a part of an unknown type', user([{ type: 'hologram', hologram: 'x' }]), '400 messages'],
    ['an image', user([{ type: 'image_url', image_url: { url: 'data:,' } }]), '400 messages'],
    ['an image without a type', user([{ image_url: { url: 'data:,' } }]), '400 messages'],
    ['a tool reference', user([{ type: 'tool_reference', name: 'f' }]), '400 messages'],
  ])('%s', async (_about, message, expected) => {
    expect(await service.refusal({ messages: [message] })).toBe(expected);
  });

  test('a part of an unknown type is refused with the list of known types', async () => {
    expect(await service.message({ messages: [user([{ type: 'hologram' }])] })).toBe(
      'content parts must be one of text, input_text, output_text, refusal, thinking; got "hologram"',
    );
  });
});

test('the rendered template is tokenised as it is, or with the vocabulary’s beginning', async () => {
  const ids = async (fields: object) =>
    (await service.answer({ max_tokens: 1, return_token_ids: true, ...fields })).prompt_token_ids;
  const plain = [...Buffer.from('user: hello;')];
  expect(await ids({})).toEqual(plain);
  expect(await ids({ add_special_tokens: true })).toEqual([256, ...plain]);
});
