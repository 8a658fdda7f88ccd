/**
 * Logits instead of log-probabilities, with the engine of this package, compared with an independent
 * computation.
 */
import type { ChatCompletion, ErrorBody, TrainingJobObject } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { ScriptedEngineInference } from '../../testing/scripted-engine.ts';
import { readEvents, TestServer } from '../../testing/test-server.ts';
import { readTrajectoryGroups } from '../../training-data/stored/trajectory-blob.ts';

const MESSAGES = [{ role: 'user', content: 'hello' }];
const BIASED = 101;
const SETTINGS = [
  { temperature: 1, seed: 1 },
  { temperature: 0.7, top_k: 5, logit_bias: { [BIASED]: 2 }, seed: 2 },
  { temperature: 0, logit_bias: { [BIASED]: 2 } },
];

/** Logits after a reply of a given length. */
function logitOf(id: number, length: number): number {
  return Math.fround(6 * Math.sin(id * 12.9898 + length * 78.233) + 4);
}

/** log Σ exp in double precision. */
function logSumExp(logits: readonly number[]): number {
  const most = Math.max(...logits);
  return most + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
}

/** Id and value of each entry: the sampled token, then the others of its step. */
type Steps = [id: number, value: number][][];

let inference: ScriptedEngineInference;
let server: TestServer<ScriptedEngineInference>;
let bySetting: TestServer<ScriptedEngineInference>;
beforeAll(async () => {
  const open = async () => {
    const opened = await ScriptedEngineInference.open({ guest: null });
    opened.model.setModel(({ replyIds }, row) => {
      for (let id = 0; id < row.length; id++) row[id] = logitOf(id, replyIds.length);
    });
    return opened;
  };
  inference = await open();
  server = await TestServer.startOn(inference);
  bySetting = await TestServer.startOn(await open(), {}, null, { logprobsMode: 'raw_logits' });
  await server.makeModel('agent');
});
afterAll(async () => {
  await server.close();
  inference.close();
  const { inference: other } = bySetting;
  await bySetting.close();
  other.close();
});

interface WireEntry {
  token: string;
  logprob: number;
  top_logprobs: { token: string; logprob: number }[];
}

function stepsOf(entries: readonly WireEntry[]): Steps {
  const read = ({ token, logprob }: { token: string; logprob: number }): [number, number] => [
    Number(/^token_id:(\d+)$/.exec(token)![1]),
    logprob,
  ];
  return entries.map((entry) => [read(entry), ...entry.top_logprobs.map(read)]);
}

const TOKENS = { max_tokens: 6, ignore_eos: true };
const AS_IDS = { return_tokens_as_token_ids: true };

const FORMS: readonly [form: string, (fields: object) => Promise<Steps>][] = [
  [
    'chat',
    async (fields) => {
      const asked = { ...TOKENS, ...AS_IDS, logprobs: true, top_logprobs: 20, messages: MESSAGES, ...fields };
      const response = await server.chat(asked);
      expect(response.statusCode, response.body).toBe(200);
      return stepsOf(response.json<ChatCompletion>().choices[0]!.logprobs!.content as WireEntry[]);
    },
  ],
  [
    'chat, streamed',
    async (fields) => {
      const asked = { ...TOKENS, ...AS_IDS, logprobs: true, top_logprobs: 20, messages: MESSAGES, ...fields };
      const { events } = readEvents((await server.chat({ ...asked, stream: true })).body);
      const chunks = events as unknown as { choices: { logprobs: { content: WireEntry[] } | null }[] }[];
      return stepsOf(chunks.flatMap(({ choices }) => choices.flatMap(({ logprobs }) => logprobs?.content ?? [])));
    },
  ],
  [
    'completion',
    async (fields) => {
      const asked = { ...TOKENS, ...AS_IDS, logprobs: 20, prompt: 'hello', ...fields };
      const response = await server.request('POST', '/v1/completions', asked);
      expect(response.statusCode, response.body).toBe(200);
      const { logprobs } = response.json<{
        choices: {
          logprobs: { tokens: string[]; token_logprobs: number[]; top_logprobs: Record<string, number>[] };
        }[];
      }>().choices[0]!;
      return stepsOf(
        logprobs.tokens.map((token, place) => ({
          token,
          logprob: logprobs.token_logprobs[place]!,
          top_logprobs: Object.entries(logprobs.top_logprobs[place]!).map(([other, logprob]) => ({
            token: other,
            logprob,
          })),
        })),
      );
    },
  ],
  [
    'token ids',
    async (fields) => {
      const sampling = { ...TOKENS, logprobs: 20, ...fields };
      const response = await server.request('POST', '/inference/v1/generate', {
        token_ids: [5, 6, 7],
        sampling_params: sampling,
      });
      expect(response.statusCode, response.body).toBe(200);
      const { choices } = response.json<{ choices: { logprobs: { content: WireEntry[] } }[] }>();
      return stepsOf(choices[0]!.logprobs.content);
    },
  ],
];

describe.each(FORMS)('%s', (_form, ask) => {
  test.each(SETTINGS)('%j', async (settings) => {
    const vocabulary = Array.from({ length: inference.models[0]!.vocabSize }, (_, id) => id);
    const modes = ['raw_logprobs', 'raw_logits', 'processed_logprobs', 'processed_logits'] as const;
    const answers = [];
    for (const mode of modes) answers.push(await ask({ ...settings, logprobs_mode: mode }));
    const [rawLogprobs, rawLogits, processedLogprobs, processedLogits] = answers as [Steps, Steps, Steps, Steps];
    expect(rawLogits).toHaveLength(TOKENS.max_tokens);
    const sampledOf = (steps: Steps) => steps.map(([sampled]) => sampled![0]);
    for (const steps of answers) expect(sampledOf(steps)).toEqual(sampledOf(rawLogprobs));

    const {
      temperature,
      top_k: topK = vocabulary.length,
      logit_bias: bias = {},
    } = settings as {
      temperature: number;
      top_k?: number;
      logit_bias?: Record<string, number>;
    };
    let largest = 0;
    const compare = (value: number, expected: number) => void (largest = Math.max(largest, Math.abs(value - expected)));
    for (let length = 0; length < TOKENS.max_tokens; length++) {
      const raw = vocabulary.map((id) => logitOf(id, length));
      const processed = raw.map((logit, id) => (logit + (bias[id] ?? 0)) / (temperature === 0 ? 1 : temperature));
      const kept = temperature === 0 ? processed : processed.toSorted((a, b) => b - a).slice(0, topK);
      for (const [id, logit] of rawLogits[length]!) compare(logit, raw[id]!);
      for (const [id, logprob] of rawLogprobs[length]!) compare(logprob, raw[id]! - logSumExp(raw));
      for (const [id, logit] of processedLogits[length]!)
        compare(logit, processed[id]! >= Math.min(...kept) ? processed[id]! : -9999);
      for (const [id, logprob] of processedLogprobs[length]!)
        compare(logprob, processed[id]! >= Math.min(...kept) ? processed[id]! - logSumExp(kept) : -9999);
    }
    console.log(`largest difference ${largest.toExponential(1)}`);
    // The processed row is stored in 32 bits.
    expect(largest).toBeLessThan(1e-6);
  });
});

test('log-probabilities of the prompt stay log-probabilities, as in vLLM', async () => {
  const asked = { messages: MESSAGES, max_tokens: 1, prompt_logprobs: 2 };
  const [logprobs, logits] = await Promise.all(
    ['raw_logprobs', 'raw_logits'].map(async (mode) =>
      (await server.chat({ ...asked, logprobs_mode: mode })).json<ChatCompletion>(),
    ),
  );
  expect(logits!.prompt_logprobs).toEqual(logprobs!.prompt_logprobs);
});

test('the setting reaches forms without the field', async () => {
  const { body } = await bySetting.request('POST', '/v1/responses', {
    input: 'hello',
    max_output_tokens: 16,
    ignore_eos: true,
    seed: 1,
    include: ['message.output_text.logprobs'],
    top_logprobs: 3,
  });
  const { output } = JSON.parse(body) as {
    output: { content?: { logprobs: { logprob: number; top_logprobs: { logprob: number }[] }[] }[] }[];
  };
  const [first] = output.flatMap(({ content = [] }) => content)[0]!.logprobs;
  const largest = Math.max(...Array.from({ length: inference.models[0]!.vocabSize }, (_, id) => logitOf(id, 0)));
  expect(Math.max(...first!.top_logprobs.map(({ logprob }) => logprob))).toBeCloseTo(largest, 5);
});

test('a beam search reports log-probabilities', async () => {
  const beam = { messages: MESSAGES, max_tokens: 2, n: 2, use_beam_search: true, logprobs: true };
  const refused = await server.chat({ ...beam, logprobs_mode: 'raw_logits' });
  expect([refused.statusCode, refused.json<ErrorBody>().error.param]).toEqual([400, 'logprobs_mode']);
  const answer = (await bySetting.chat(beam)).json<ChatCompletion>();
  for (const { logprob } of answer.choices[0]!.logprobs!.content!) expect(logprob).toBeLessThanOrEqual(0);
});

describe.each(SETTINGS)('a choice drawn with %j', (settings) => {
  test.each(['raw', 'processed'] as const)('is trained by the log-probabilities of its record: %s', async (kind) => {
    const ask = async (mode: string) => {
      const asked = { ...TOKENS, ...AS_IDS, ...settings, model: 'agent', messages: MESSAGES, logprobs: true };
      return (await server.chat({ ...asked, return_token_ids: true, logprobs_mode: mode })).json<ChatCompletion>();
    };
    const [choice] = (await ask(`${kind}_logits`)).choices;
    const [plain] = (await ask(`${kind}_logprobs`)).choices;
    const sent = choice!.logprobs!.content!.map(({ logprob }) => logprob);
    expect(sent).not.toEqual(plain!.logprobs!.content!.map(({ logprob }) => logprob));

    const modelId = await server.makeModel('agent-of-logits', `${kind}-${SETTINGS.indexOf(settings)}`);
    const trajectories = [0, 1].map((reward) => ({ reward, messages_and_choices: [...MESSAGES, choice] }));
    const body = { model_id: modelId, trajectory_groups: [{ trajectories }] };
    const response = await server.request('POST', '/v1/preview/training-jobs', body);
    expect(response.statusCode, response.body).toBe(200);
    const { id } = response.json<TrainingJobObject>();
    const [group] = await readTrajectoryGroups(server.blobs, `groups/${id}`, { keepsBareIds: false });
    const item = group!.trajectories[0]!.histories[0]!.items.at(-1)!;
    const expected = plain!.logprobs!.content!.map(({ logprob }) => Math.fround(logprob));
    expect(item).toMatchObject({ kind: 'choice', sampling: { settings: { reportsLogits: true } } });
    expect([...(item as unknown as { logprobs: Float32Array }).logprobs]).toEqual(expected);
  });

  test('is refused without its record', async () => {
    const logprobs = { content: [{ token: 'token_id:5', logprob: 3.5, bytes: null, top_logprobs: [] }] };
    const choice = { finish_reason: 'stop', message: { role: 'assistant', content: 'x' }, token_ids: [5], logprobs };
    const trajectories = [0, 1].map((reward) => ({ reward, messages_and_choices: [...MESSAGES, choice] }));
    const modelId = await server.makeModel('agent');
    const body = { model_id: modelId, trajectory_groups: [{ trajectories }] };
    const response = await server.request('POST', '/v1/preview/training-jobs', body);
    expect(response.statusCode).toBe(422);
    expect(response.body).toContain('needs its `record_id`');
  });
});
