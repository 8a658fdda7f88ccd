import type {
  ChatCompletion,
  ChatCompletionChunk,
  Message,
  MessageEvent,
  Response,
  ResponseEvent,
} from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { ScriptedEngineInference } from '../../testing/scripted-engine.ts';
import { readEvents, readNamedEvents, TestServer } from '../../testing/test-server.ts';

const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const CALL = 'I look.<tool_call>\n{"name": "weather", "arguments": {"city": "Rome or Paris"}}\n</tool_call>';
const MALFORMED = 'I look.<tool_call>\n{"name": "weather", "arguments": {"city": Rome or Paris}}\n</tool_call>';
/** A reply with its cut: after a number of tokens (one per byte), or at a string. */
const REPLIES = {
  auto: CALL,
  malformed: MALFORMED,
  required: '[{"name": "weather", "parameters": {"city": "Rome or Paris"}}]',
  named: '{"city": "Rome or Paris"}',
};
const CUTS = ['nothing', 'the limit', 'a stop string'] as const;
const CASES = Object.keys(REPLIES).flatMap((choice) =>
  CUTS.map((cut) => [choice as keyof typeof REPLIES, cut] as const),
);

let inference: ScriptedEngineInference;
let server: TestServer<ScriptedEngineInference>;
beforeAll(async () => {
  inference = await ScriptedEngineInference.open({ template: 'tools', contextLength: 1024 });
  server = await TestServer.startOn(inference);
});
afterAll(async () => {
  await server.close();
  inference.close();
});

interface Told {
  ending: unknown;
  content: string;
  calls: { name: string; arguments: string }[];
}

const isWhole = (told: Told) => told.calls.every(({ arguments: text }) => isObject(text));

function isObject(text: string): boolean {
  try {
    return JSON.parse(text)?.constructor === Object;
  } catch {
    return false;
  }
}

const limitOf = (choice: keyof typeof REPLIES) => REPLIES[choice].indexOf(' Paris');

async function chat(choice: keyof typeof REPLIES, cut: (typeof CUTS)[number]): Promise<[Told, Told]> {
  const tools = [{ type: 'function', function: { name: 'weather', parameters: PARAMETERS } }];
  const forced = { required: 'required', named: { type: 'function', function: { name: 'weather' } } };
  const fields = {
    messages: [{ role: 'user', content: 'Hello' }],
    tools,
    tool_choice: choice in forced ? forced[choice as keyof typeof forced] : 'auto',
    ...(cut === 'the limit' ? { max_completion_tokens: limitOf(choice) } : {}),
    ...(cut === 'a stop string' ? { stop: ['Paris'] } : {}),
  };
  const response = await server.chat(fields);
  const [answer] = response.json<ChatCompletion>().choices;
  const whole: Told = {
    ending: answer?.finish_reason,
    content: answer?.message.content ?? '',
    calls: answer?.message.tool_calls?.map((call) => call.function) ?? [],
  };
  const streamed: Told = { ending: null, content: '', calls: [] };
  const { events } = readEvents((await server.chat({ ...fields, stream: true })).body);
  for (const { choices = [] } of events as ChatCompletionChunk[]) {
    for (const { delta, finish_reason: reason } of choices) {
      streamed.content += delta.content ?? '';
      streamed.ending = reason ?? streamed.ending;
      for (const call of delta.tool_calls ?? []) {
        const known = (streamed.calls[call.index] ??= { name: '', arguments: '' });
        known.name += call.function?.name ?? '';
        known.arguments += call.function?.arguments ?? '';
      }
    }
  }
  return [whole, streamed];
}

async function responses(choice: keyof typeof REPLIES, cut: (typeof CUTS)[number]): Promise<[Told, Told]> {
  const forced = { required: 'required', named: { type: 'function', name: 'weather' } };
  const fields = {
    input: 'Hello',
    tools: [{ type: 'function', name: 'weather', parameters: PARAMETERS }],
    tool_choice: choice in forced ? forced[choice as keyof typeof forced] : 'auto',
    ...(cut === 'the limit' ? { max_output_tokens: limitOf(choice) } : {}),
  };
  const told = ({ status, output }: Response): Told => ({
    ending: [status, output.at(-1)?.status],
    content: output
      .flatMap((item) => (item.type === 'message' ? item.content.map((part) => ('text' in part ? part.text : '')) : []))
      .join(''),
    calls: output.flatMap((item) =>
      item.type === 'function_call' ? [{ name: item.name, arguments: item.arguments }] : [],
    ),
  });
  const whole = (await server.request('POST', '/v1/responses', fields)).json<Response>();
  const { body } = await server.request('POST', '/v1/responses', { ...fields, stream: true });
  const events = readNamedEvents<ResponseEvent>(body);
  const last = events.at(-1);
  const deltas = events.flatMap((event) =>
    event.type === 'response.function_call_arguments.delta' ? [event.delta] : [],
  );
  const streamed = told((last as { response: Response }).response);
  expect(deltas.join('')).toBe(streamed.calls.map(({ arguments: text }) => text).join(''));
  return [told(whole), streamed];
}

async function messages(choice: keyof typeof REPLIES, cut: (typeof CUTS)[number]): Promise<[Told, Told]> {
  const forced = { required: { type: 'any' }, named: { type: 'tool', name: 'weather' } };
  const fields = {
    max_tokens: cut === 'the limit' ? limitOf(choice) : 200,
    messages: [{ role: 'user', content: 'Hello' }],
    tools: [{ name: 'weather', input_schema: PARAMETERS }],
    tool_choice: choice in forced ? forced[choice as keyof typeof forced] : { type: 'auto' },
    ...(cut === 'a stop string' ? { stop_sequences: ['Paris'] } : {}),
  };
  const answer = (await server.request('POST', '/v1/messages', fields)).json<Message>();
  const whole: Told = { ending: answer.stop_reason, content: '', calls: [] };
  for (const block of answer.content) {
    if (block.type === 'text') whole.content += block.text;
    if (block.type === 'tool_use') whole.calls.push({ name: block.name, arguments: JSON.stringify(block.input) });
  }
  const { body } = await server.request('POST', '/v1/messages', { ...fields, stream: true });
  const streamed: Told = { ending: null, content: '', calls: [] };
  let input = '';
  for (const event of readNamedEvents<MessageEvent>(body)) {
    if (event.type === 'content_block_start' && event.content_block.type === 'tool_use') {
      streamed.calls.push({ name: event.content_block.name, arguments: '{}' });
      input = '';
    }
    if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') streamed.content += event.delta.text;
    if (event.type === 'content_block_delta' && event.delta.type === 'input_json_delta') {
      input += event.delta.partial_json;
      streamed.calls.at(-1)!.arguments = JSON.stringify(JSON.parse(input));
    }
    if (event.type === 'message_delta') streamed.ending = event.delta.stop_reason;
  }
  return [whole, streamed];
}

test.each(
  CASES.flatMap(([choice, cut]) => [chat, responses, messages].map((form) => [form.name, choice, cut, form] as const)),
)('%s, %s, cut by %s: the same in a stream, and no half call under stop', async (_name, choice, cut, form) => {
  inference.model.setReply(REPLIES[choice]);
  const [whole, streamed] = await form(choice, cut);
  expect(streamed).toEqual(whole);
  if (form === responses && cut === 'a stop string') return; // the form has none: the reply is whole
  const isCutInCall = cut !== 'nothing' && choice !== 'malformed';
  const endings = { chat: 'length', responses: ['incomplete', 'incomplete'], messages: 'max_tokens' };
  if (isCutInCall) expect(whole.ending).toEqual(endings[form.name as keyof typeof endings]);
  else expect(isWhole(whole)).toBe(true);
  expect(whole.calls).toHaveLength(choice === 'malformed' ? 0 : 1);
});
