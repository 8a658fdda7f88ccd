/**
 * Body values that Python's `json.loads` keeps and `JSON.parse` loses, on their way to a template: digits,
 * floats, the order of keys that look like integers.
 */
import type { TokenizeResponse } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect } from 'vitest';

import { test } from '../behaviour-test.ts';
import { ScriptedService } from '../scripted-service.ts';

let service: ScriptedService;
beforeAll(async () => {
  service = await ScriptedService.open();
  service.prefer({ x: 0 });
});
afterAll(() => service.close());

const WRITTEN = '{"b":1.0,"10":12345678901234567890,"2":{"y":1000.0,"1":[-0.0,0.5,1]}}';
/** As Python writes it back. */
const RENDERED = '{"b": 1.0, "10": 12345678901234567890, "2": {"y": 1000.0, "1": [-0.0, 0.5, 1]}}';

async function rendered(template: string, members: string): Promise<string> {
  const fields = `"chat_template":${JSON.stringify(template)},"max_tokens":1,"return_prompt_text":true`;
  const response = await service.server.request(
    'POST',
    '/v1/chat/completions',
    `{"model":"tiny/base",${fields},${members}}`,
  );
  if (response.statusCode !== 200) throw new Error(response.body);
  return response.json<{ prompt_text: string }>().prompt_text;
}

const USER = '{"role":"user","content":"x"}';

describe('a chat', () => {
  test('tools', async () => {
    const tools = `[{"type":"function","function":{"name":"f","description":"1.0","parameters":${WRITTEN}}}]`;
    expect(await rendered('{{ tools | tojson }}', `"messages":[${USER}],"tool_choice":"none","tools":${tools}`)).toBe(
      `[{"type": "function", "function": {"name": "f", "description": "1.0", "parameters": ${RENDERED}}}]`,
    );
  });

  test('tools that a template does not know, and the calls of earlier turns', async () => {
    const tools = `[{"type":"function","function":{"name":"f","parameters":${WRITTEN}}}]`;
    const call = `{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":${JSON.stringify(WRITTEN)}}}]}`;
    const text = await rendered(
      '{% for m in messages %}{{ m.content }}\n{% endfor %}',
      `"messages":[${USER},${call},{"role":"tool","tool_call_id":"1","content":"1"}],"tools":${tools}`,
    );
    expect(text).toContain(`{"type": "function", "function": {"name": "f", "parameters": ${RENDERED}}}`);
    expect(text).toContain(`{"name": "f", "arguments": ${RENDERED}}`);
  });

  test('variables of the template; later ones count', async () => {
    const template = '{{ v | tojson }} {{ n }} {{ documents | tojson }} {{ reasoning_effort }} {{ enable_thinking }}';
    const variables = `"chat_template_kwargs":{"v":${WRITTEN},"n":2e0,"reasoning_effort":"no","enable_thinking":3.0}`;
    const others = `"reasoning_effort":"high","documents":[{"text":"b"}]`;
    expect(await rendered(template, `"messages":[${USER}],${variables},${others}`)).toBe(
      `${RENDERED} 2.0 [{"text": "b"}] high 3.0`,
    );
  });

  test('of members that come twice the last counts', async () => {
    const twice = `"chat_template_kwargs":{"v":{"1":1.0}},"messages":[${USER}],"chat_template_kwargs":{"v":{"a":1}}`;
    expect(await rendered('{{ v | tojson }}', twice)).toBe('{"a": 1}');
  });
});

test('an input of /v1/messages', async () => {
  const use = `{"type":"tool_use","id":"1","name":"f","input":${WRITTEN}}`;
  const result = `{"type":"tool_result","tool_use_id":"1","content":"x"}`;
  const tool = `{"name":"f","input_schema":{"type":"object","properties":{"b":{"minimum":1.0},"1":{}}}}`;
  const body = `{"model":"tiny/base","max_tokens":1,"tools":[${tool}],"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"text","text":"t"},${use}]},{"role":"user","content":[${result}]}]}`;
  let prompt = '';
  service.inference.model.setModel(({ promptIds }, row) => {
    prompt = service.inference.model.tokenizer.decode([...promptIds]);
    row[120] = 9;
  });
  const response = await service.server.request('POST', '/v1/messages', body);
  expect(response.json<unknown>()).toMatchObject({ type: 'message' });
  service.prefer({ x: 0 });
  expect(prompt).toContain(RENDERED);
  expect(prompt).toContain('"properties": {"b": {"minimum": 1.0}, "1": {}}');
});

test('tokenize', async () => {
  const tools = `[{"type":"function","function":{"name":"f","parameters":${WRITTEN}}}]`;
  const body = `{"model":"tiny/base","messages":[${USER}],"tools":${tools},"chat_template":"{{ tools | tojson }}"}`;
  const response = await service.server.request('POST', '/v1/tokenize', body);
  const { tokens } = response.json<TokenizeResponse>();
  expect(service.inference.model.tokenizer.decode(tokens)).toContain(RENDERED);
});
