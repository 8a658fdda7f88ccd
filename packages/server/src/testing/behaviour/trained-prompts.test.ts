/** A model trained here: a template receives the same from a trajectory as from the sampled chat. */
import type { TrainingJobObject } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect } from 'vitest';

import { readTrajectoryGroups } from '../../training-data/stored/trajectory-blob.ts';
import { test } from '../behaviour-test.ts';
import { ScriptedService } from '../scripted-service.ts';

let service: ScriptedService;
let modelId: string;
beforeAll(async () => {
  service = await ScriptedService.open({ template: 'tools' });
  service.prefer({ x: 0 });
  modelId = await service.server.makeModel('agent');
  await service.server.addCheckpoint(modelId, 'a');
});
afterAll(() => service.close());

/** Renders all that a template receives. */
const TEMPLATE =
  "{% for m in messages %}{{ m | tojson }}{{ m.role == 'developer' }}{% endfor %}{{ tools | tojson }}{{ v | tojson if v }}{{ documents | tojson if documents }}{{ enable_thinking }}";

/** Values that `JSON.parse` reads differently from Python. */
const WRITTEN = '{"b":1.0,"10":12345678901234567890,"2":{"y":1e3,"1":[-0.0,0.5,1e-7,1E+23]}}';
const WHOLE = `"chat_template":${JSON.stringify(TEMPLATE)}`;
const tools = (parameters: string) => `[{"type":"function","function":{"name":"f","parameters":${parameters}}}]`;
const messages = (args: string) =>
  `{"role":"user","content":"x"},{"role":"assistant","content":"t","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":${args}}}]},{"role":"tool","tool_call_id":"1","content":"1"}`;

async function sampledPrompt(members: string): Promise<number[]> {
  const body = `{"model":"acme/demo/agent","max_tokens":1,"tool_choice":"none","return_token_ids":true,${members}}`;
  const response = await service.server.request('POST', '/v1/chat/completions', body);
  if (response.statusCode !== 200) throw new Error(response.body);
  return response.json<{ prompt_token_ids: number[] }>().prompt_token_ids;
}

const CHOICE = `{"finish_reason":"stop","message":{"role":"assistant","content":"x"},"logprobs":{"content":[{"token":"token_id:120","logprob":-1,"bytes":[120],"top_logprobs":[]}]}}`;

function submit(history: string) {
  const groups = `[{"trajectories":[{"reward":1,${history}},{"reward":0,${history}}]}]`;
  return service.server.request(
    'POST',
    '/v1/preview/training-jobs',
    `{"model_id":"${modelId}","trajectory_groups":${groups}}`,
  );
}

/** A trajectory in the trainer's form. */
async function storedHistory(history: string) {
  const response = await submit(history);
  if (response.statusCode !== 200) throw new Error(response.body);
  const { id } = response.json<TrainingJobObject>();
  const [group] = await readTrajectoryGroups(service.server.blobs, `groups/${id}`, { keepsBareIds: false });
  return group!.trajectories[0]!.histories[0]!;
}

/** Prompt of the only choice, as a trainer renders it. */
async function trainedPrompt(history: string): Promise<number[]> {
  return renderedPrompt(await storedHistory(history));
}

async function renderedPrompt({
  items,
  tools: given,
  templateVariables = {},
}: Awaited<ReturnType<typeof storedHistory>>): Promise<number[]> {
  const chat = { ...service.inference.lastRequest.prompt, toolsText: null, templateVariablesText: null };
  const sent = items.slice(0, -1).map(({ message }) => message);
  const input = { ...chat, tools: given, templateVariables, messages: sent };
  return service.inference.model.codec.tokenize(input as never, AbortSignal.timeout(10_000));
}

describe('the prompt of a trajectory is that of the chat', () => {
  test('with tools', async () => {
    const sampled = await sampledPrompt(`"messages":[{"role":"user","content":"x"}],"tools":${tools(WRITTEN)}`);
    const history = `"messages_and_choices":[{"role":"user","content":"x"},${CHOICE}],"tools":${tools(WRITTEN)}`;
    expect(service.inference.model.tokenizer.decode(sampled)).toContain('"b": 1.0, "10": 12345678901234567890');
    expect(await trainedPrompt(history)).toEqual(sampled);
    const call = `{"request":{"messages":[{"role":"user","content":"x"}],"tools":${tools(WRITTEN)}},"response":{"choices":[${CHOICE}]}}`;
    expect(await trainedPrompt(`"exchanges":{"chat_completions":[${call}]}`)).toEqual(sampled);
  });

  test('with tools that have numbers outside of their parameters', async () => {
    const own =
      '[{"type":"function","function":{"name":"f","parameters":{"a":1},"return":{"maximum":2.0}},"cost":3.0}]';
    const sampled = await sampledPrompt(`${WHOLE},"messages":[{"role":"user","content":"x"}],"tools":${own}`);
    expect(service.inference.model.tokenizer.decode(sampled)).toMatch(/"maximum": 2\.0.*"cost": 3\.0/);
    const history = `"messages_and_choices":[{"role":"user","content":"x"},${CHOICE}],"tools":${own}`;
    expect(await trainedPrompt(history)).toEqual(sampled);
  });

  test('with tools of a further history, written over several lines', async () => {
    const spread = tools(WRITTEN.replaceAll(',', ',\r\n'));
    const sampled = await sampledPrompt(`${WHOLE},"messages":[{"role":"user","content":"x"}],"tools":${spread}`);
    const history = `"messages_and_choices":[{"role":"user","content":"x"},${CHOICE}],"tools":${spread}`;
    const response = await submit(`"messages_and_choices":[],"additional_histories":[{${history}}]`);
    expect(response.statusCode).toBe(200);
    const key = `groups/${response.json<TrainingJobObject>().id}`;
    const [group] = await readTrajectoryGroups(service.server.blobs, key, { keepsBareIds: false });
    expect(await renderedPrompt(group!.trajectories[0]!.histories[1]!)).toEqual(sampled);
  });

  test('with variables of the template', async () => {
    const user = '{"role":"user","content":"x"}';
    const variables = `"chat_template_kwargs":{"v":${WRITTEN},"enable_thinking":3.0}`;
    const sampled = await sampledPrompt(`${WHOLE},"messages":[${user}],${variables},"documents":[{"text":"d"}]`);
    const both = variables.replace('"chat_template_kwargs":{', '"chat_template_kwargs":{"documents":[{"text":"d"}],');
    expect(await trainedPrompt(`"messages_and_choices":[${user},${CHOICE}],${both}`)).toEqual(sampled);
    const request = `{"messages":[${user}],${variables},"documents":[{"text":"d"}]}`;
    const call = `{"request":${request},"response":{"choices":[${CHOICE}]}}`;
    expect(await trainedPrompt(`"exchanges":{"chat_completions":[${call}]}`)).toEqual(sampled);
  });

  test('with tools in a message of the developer', async () => {
    const said = `{"role":"developer","content":"d","tools":${tools(WRITTEN)}},{"role":"user","content":"x"}`;
    const sampled = await sampledPrompt(`${WHOLE},"messages":[${said}]`);
    expect(service.inference.model.tokenizer.decode(sampled)).toContain('"b": 1.0, "10": 12345678901234567890');
    expect(await trainedPrompt(`"messages_and_choices":[${said},${CHOICE}]`)).toEqual(sampled);
  });

  test('with numbers in arguments that only Python reads', async () => {
    const args = '{"p": NaN, "q": [-Infinity, 1e400]}';
    const sampled = await sampledPrompt(`${WHOLE},"messages":[${messages(JSON.stringify(args))}]`);
    expect(service.inference.model.tokenizer.decode(sampled)).toContain('{"p": NaN, "q": [-Infinity, Infinity]}');
    expect(await trainedPrompt(`"messages_and_choices":[${messages(JSON.stringify(args))},${CHOICE}]`)).toEqual(
      sampled,
    );
  });

  test.each([
    ['text', JSON.stringify(WRITTEN)],
    ['an object', WRITTEN],
  ])('with arguments that are %s in the trajectory', async (_form, args) => {
    const sampled = await sampledPrompt(`"messages":[${messages(JSON.stringify(WRITTEN))}]`);
    expect(service.inference.model.tokenizer.decode(sampled)).toContain('"b": 1.0, "10": 12345678901234567890');
    expect(await trainedPrompt(`"messages_and_choices":[${messages(args)},${CHOICE}]`)).toEqual(sampled);
    const other = `"messages_and_choices":[],"additional_histories":[{"messages_and_choices":[${messages(args)},${CHOICE}]}]`;
    expect((await submit(other)).statusCode).toBe(200);
    const call = (sent: string, sampled: string) =>
      `{"request":{"messages":[${sent}]},"response":{"choices":[${sampled}]}}`;
    expect(await trainedPrompt(`"exchanges":{"chat_completions":[${call(messages(args), CHOICE)}]}`)).toEqual(sampled);
  });

  test('with arguments of a choice after which a call continues', async () => {
    const args = '{"a":1.0,"10":1,"2":12345678901234567890}';
    const choice = CHOICE.replace(
      '"content":"x"',
      `"content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":${args}}}]`,
    );
    const kept = await storedHistory(
      `"exchanges":{"chat_completions":[{"request":{"messages":[{"role":"user","content":"x"}]},"response":{"choices":[${choice}]}}]}`,
    );
    expect(JSON.stringify(kept.items.at(-1))).toContain(JSON.stringify(args));
  });

  test('with a number that overflows here: neither has a prompt', async () => {
    const chat = sampledPrompt(`"messages":[{"role":"user","content":"x"}],"tools":${tools('{"maximum":1e400}')}`);
    await expect(chat).rejects.toThrow('finite number');
    const refused = await submit(
      `"messages_and_choices":[{"role":"user","content":"x"},${CHOICE}],"tools":${tools('{"maximum":1e400}')}`,
    );
    expect([refused.statusCode, refused.body]).toEqual([422, expect.stringContaining('finite number')]);
    const calls = await submit(`"messages_and_choices":[${messages('{"x":-1e400}')},${CHOICE}]`);
    expect([calls.statusCode, calls.body]).toEqual([422, expect.stringContaining('finite number')]);
  });
});
