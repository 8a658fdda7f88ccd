import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ChatCompletion } from '@trainyard/protocol';

import { replies, ScriptedInference } from '../../testing/scripted-inference.ts';
import { readEvents, TestServer } from '../../testing/test-server.ts';

let server: TestServer;
let modelId: string;
let entityId: string;
beforeAll(async () => {
  server = await TestServer.start();
  modelId = await server.makeModel('agent');
  await server.addCheckpoint(modelId, 'a');
  ({ id: entityId } = await server.store.keys.ensureEntity('acme'));
});
afterAll(() => server.close());

const choices = async (fields: object, on = server) =>
  (await on.chat({ model: 'agent', ...fields })).json<ChatCompletion>().choices;
async function recordOf(id: string | undefined, entity = entityId) {
  return id === undefined ? undefined : (await server.store.choiceRecords.find(entity, [id])).get(id);
}

/** Tokens that the scripted model samples. */
const SAMPLED = {
  step: 1,
  digest: 'a'.repeat(64),
  promptTokenIds: Int32Array.of(1, 2, 3),
  tokenIds: Int32Array.of(5, 6, 2),
  logprobs: Float32Array.of(-0.5, -0.6, -0.2),
};

test('each choice of a trained model names a record of its own: prompt, ids, log-probabilities, version', async () => {
  const answered = await choices({ n: 3 });
  const ids = answered.map(({ record_id: id }) => id);
  expect(new Set(ids).size).toBe(3);
  for (const [index, id] of ids.entries())
    expect(await recordOf(id)).toMatchObject({ ...SAMPLED, modelId, entityId, choiceIndex: index });
  const given = answered[0]!.logprobs!.content.map(({ logprob }) => logprob);
  const kept = (await recordOf(ids[0]))!.logprobs;
  const difference = Math.max(...given.map((logprob, place) => Math.abs(logprob - kept[place]!)));
  console.log(`kept log-probabilities differ from those in the answer by at most ${difference.toExponential(1)}`);
  expect(difference).toBeLessThan(1e-7);
});

test('the record has the parts that the answer hides', async () => {
  const [plain] = await choices({ logprobs: false, return_token_ids: false });
  expect([plain?.logprobs, plain?.token_ids]).toEqual([null, null]);
  expect(await recordOf(plain?.record_id)).toMatchObject({ tokenIds: SAMPLED.tokenIds, logprobs: SAMPLED.logprobs });

  const script = server.inference.script;
  server.inference.script = (request) =>
    replies(request, [{ ids: [7], text: 'so' }], { parsed: { content: 'x', reasoning: 'so' } });
  const [hidden] = await choices({ include_reasoning: false });
  server.inference.script = script;
  expect([hidden?.message.reasoning, hidden?.token_ids]).toEqual([null, null]);
  expect((await recordOf(hidden?.record_id))?.tokenIds).toEqual(Int32Array.of(7, 2));
});

test.each([1, 2])('a stream has it in the finish chunk of each choice, with stream_interval %i', async (interval) => {
  const fields = { model: 'agent', stream: true, n: 2, stream_interval: interval };
  const { events, isDone } = readEvents((await server.chat(fields)).body);
  expect(isDone).toBe(true);
  const told = events.flatMap((event) => event.choices ?? []);
  expect(told.map((choice) => choice.record_id !== undefined)).toEqual(
    told.map((choice) => choice.finish_reason !== null),
  );
  const ids = told.flatMap((choice) => (choice.record_id === undefined ? [] : [[choice.index, choice.record_id]]));
  expect(ids).toHaveLength(2);
  for (const [index, id] of ids)
    expect(await recordOf(id as string)).toMatchObject({ choiceIndex: index, tokenIds: SAMPLED.tokenIds });
});

test.each(['whole', 'streamed'])(
  'each choice of a trained model names the step that sampled its tokens (%s)',
  async (way) => {
    const spansOf = async (fields: Record<string, unknown>) => {
      if (way === 'whole') {
        const { id, choices } = (await server.chat(fields)).json<ChatCompletion>();
        return { id, spans: choices.flatMap(({ policy_token_spans: spans }) => spans ?? []) };
      }
      const { events } = readEvents((await server.chat({ ...fields, stream: true })).body);
      const ended = events.flatMap((event) => event.choices ?? []).filter((choice) => choice.finish_reason !== null);
      return { id: events[0]!.id, spans: ended.flatMap(({ policy_token_spans: spans }) => spans ?? []) };
    };
    for (const [model, step] of [
      ['agent', 1],
      ['agent:step0', 0],
    ] as const) {
      const { id, spans } = await spansOf({ model, n: 2 });
      const span = { start_token: 0, end_token: 3, generation_id: id, policy_version: step, update_seq: step };
      expect(spans).toEqual([span, span].map((one) => ({ ...one, lora_slot: `acme/demo/agent:step${step}` })));
    }
    expect((await spansOf({ model: 'agent', return_token_ids: false })).spans).toEqual([]);
    expect((await spansOf({ model: 'tiny/base', return_token_ids: true })).spans).toEqual([]);
  },
);

test('nothing is recorded that training cannot use', async () => {
  const unkept: object[] = [{ model: 'tiny/base' }, { use_beam_search: true }];
  for (const fields of unkept)
    expect((await choices(fields))[0], JSON.stringify(fields)).not.toHaveProperty('record_id');
});

test('the setting turns it off', async () => {
  const off = await TestServer.startOn(new ScriptedInference(), {}, null, { keepsChoiceRecords: false });
  await off.makeModel('agent');
  const [choice] = await choices({ logprobs: false }, off);
  expect(choice).not.toHaveProperty('record_id');
  expect(off.inference.lastRequest.logprobs).toBeNull();
  await off.close();
});
