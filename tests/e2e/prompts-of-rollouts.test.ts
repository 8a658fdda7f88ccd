/**
 * Ways to sample whose prompts differ from the model's template for the trajectory's messages, or that use
 * another form of the API: each is trained after its sampled prompt, bit for bit.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';

import type { ChatCompletion, Completion, GenerateTokensAnswer, WireTrajectory } from '@trainyard/protocol';
import { Trainyard } from '@trainyard/sdk';

import type { OwnService } from '../../scripts/own-service.ts';
import { smallService } from '../support/small-service.ts';

let service: OwnService;
let client: Trainyard;
let modelId: string;
beforeAll(async () => {
  service = await smallService({ environment: { TRAINYARD_DETERMINISTIC: 'on' } });
  client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
  const base = (await client.servedModels.list()).data[0]!.id;
  ({ id: modelId } = await client.models.register({ project: 'p', name: MODEL, base_model: base }));
});
afterAll(() => service.close());

const MODEL = 'prompts';
const NUM_ROLLOUTS = 4;
const SAMPLED = { model: MODEL, max_tokens: 12 };

type Item = NonNullable<WireTrajectory['messages_and_choices']>[number];
interface Message {
  role: string;
  content?: string | null;
}

async function post<Answer>(path: string, body: object): Promise<Answer> {
  const response = await fetch(new URL(path, service.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return JSON.parse(text) as Answer;
}

const user = (content: string) => ({ role: 'user', content });
const FIRST = user('Tell me about blue things, and about things that are not quite blue.');
const SECOND = user('Go on.');

/** Two turns of a chat; the model's message goes back as answered. */
function chat(fields: object, secondFields: object = fields) {
  return async (seed: number): Promise<Item[]> => {
    const ask = async (messages: readonly object[], own: object) =>
      (await post<ChatCompletion>('/v1/chat/completions', { ...SAMPLED, ...own, messages, seed })).choices[0]!;
    const one = await ask([FIRST], fields);
    const two = await ask([FIRST, one.message, SECOND], secondFields);
    return [FIRST, one, SECOND, two];
  };
}

/** A reply without tokens from a form of the API, with a record. */
const recorded = (content: string, { record_id: recordId }: { record_id: string }) => ({
  role: 'assistant',
  content,
  record_id: recordId,
});

/** A choice with all its data, including its prompt, and without a record. */
const complete = (
  content: string,
  promptIds: readonly number[],
  ids: readonly number[],
  logprobs: readonly number[],
) => ({
  finish_reason: 'length',
  message: { role: 'assistant', content },
  token_ids: ids,
  prompt_token_ids: promptIds,
  logprobs: { content: ids.map((id, place) => ({ token: `token_id:${id}`, logprob: logprobs[place]! })) },
});

async function completed(prompt: string | readonly number[], seed: number) {
  const body = { ...SAMPLED, prompt, seed, logprobs: 0, return_token_ids: true };
  const { choices } = await post<Completion>('/v1/completions', body);
  const [{ text, token_ids: ids, prompt_token_ids: promptIds, logprobs }] = choices as [(typeof choices)[number]];
  return { ids: ids!, choice: complete(text, promptIds!, ids!, logprobs!.token_logprobs as number[]) };
}

const THINKING = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content.split('</think>') | last }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}`;

const WAYS: Readonly<Record<string, (seed: number) => Promise<Item[]>>> = {
  'a chat': chat({}),
  'a stop string that is not shown': chat({ stop: ['a', 'e', 'i'] }),
  'continuing the last message': async (seed) => {
    const begun = { role: 'assistant', content: 'Blue things are' };
    const goesOn = { ...SAMPLED, seed, add_generation_prompt: false, continue_final_message: true };
    const first = [FIRST, begun];
    const { choices } = await post<ChatCompletion>('/v1/chat/completions', { ...goesOn, messages: first });
    const said: Message = { role: 'assistant', content: `${begun.content}${choices[0]!.message.content}` };
    const next = { ...SAMPLED, seed, messages: [FIRST, said, SECOND] };
    const { choices: others } = await post<ChatCompletion>('/v1/chat/completions', next);
    return [...first, choices[0]!, SECOND, others[0]!];
  },
  'a prompt truncated at its start': chat({ truncate_prompt_tokens: 9 }),
  'a prompt truncated at its end': chat({ truncate_prompt_tokens: 9, truncation_side: 'right' }),
  'a template of the request that opens reasoning and drops it later': chat({ chat_template: THINKING }),
  'another template for the second turn': chat({}, { chat_template: THINKING }),
  'no generation prompt': chat({ add_generation_prompt: false }),
  'the Responses form': async (seed) => {
    const ask = async (input: readonly object[]) => {
      type Answer = { record_id: string; output: { content?: { text: string }[] }[] };
      const answer = await post<Answer>('/v1/responses', { model: MODEL, max_output_tokens: 12, input, seed });
      return recorded(answer.output.flatMap(({ content = [] }) => content.map(({ text }) => text)).join(''), answer);
    };
    const one = await ask([FIRST]);
    return [FIRST, one, SECOND, await ask([FIRST, { role: 'assistant', content: one.content }, SECOND])];
  },
  'the Messages form': async () => {
    const ask = async (messages: readonly object[]) => {
      type Answer = { record_id: string; content: { text?: string }[] };
      const answer = await post<Answer>('/v1/messages', { ...SAMPLED, messages });
      return recorded(answer.content.map(({ text }) => text ?? '').join(''), answer);
    };
    const one = await ask([FIRST]);
    return [FIRST, one, SECOND, await ask([FIRST, { role: 'assistant', content: one.content || '-' }, SECOND])];
  },
  'text completions, the second after ids': async (seed) => {
    const one = await completed('Blue things are', seed);
    const two = await completed([...one.choice.prompt_token_ids, ...one.ids, 28, 29], seed);
    return [FIRST, one.choice, SECOND, two.choice];
  },
  'ids in, ids out': async (seed) => {
    const ask = async (promptIds: readonly number[]) => {
      const sampling = { max_tokens: 12, logprobs: 0, seed };
      const body = { model: MODEL, token_ids: promptIds, sampling_params: sampling };
      const { choices } = await post<GenerateTokensAnswer>('/inference/v1/generate', body);
      const [{ token_ids: ids, logprobs }] = choices as [(typeof choices)[number]];
      const content = logprobs!.content as { logprob: number }[];
      return complete('', promptIds, ids!, content.map(({ logprob }) => logprob)); // prettier-ignore
    };
    const one = await ask([5, 6, 7]);
    return [FIRST, one, SECOND, await ask([5, 6, 7, ...one.token_ids, 28])];
  },
};

it.each(Object.entries(WAYS))('%s', async (way, play) => {
  const rollouts = await Promise.all(Array.from({ length: NUM_ROLLOUTS }, (_, index) => play(index + 1)));
  const trajectories = rollouts.map((items, reward) => ({ messages_and_choices: items, reward })) as WireTrajectory[];
  const job = await client.trainingJobs.create({
    model_id: modelId,
    trajectory_groups: [{ trajectories }],
    experimental_config: { learning_rate: 1e-3 },
  });
  const [metrics] = (await client.trainingJobs.gradientSteps(job.id)) as Record<string, number>[];
  const counts = (await client.trainingJobs.retrieve(job.id)).counts as Record<string, number>;
  console.log(
    `${way}: largest gap ${metrics!['logprob_gap_max']}, ${counts['num_branched_turns']} of ${NUM_ROLLOUTS} turns in histories of their own`,
  );
  expect(metrics).toMatchObject({ logprob_gap_max: 0, ratio_max: 1 });
  expect(counts).toMatchObject({
    num_trajectories_trainable: NUM_ROLLOUTS,
    num_histories_trainable: NUM_ROLLOUTS + counts['num_branched_turns']!,
    num_unknown_records: 0,
    num_divergent_prompts: 0,
  });
});
