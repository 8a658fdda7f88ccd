/**
 * The product with its real default model: a chat, a reward-labelled job, a supervised job, a kill midway,
 * and the `openai` client.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import OpenAI from 'openai';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { Trainyard } from '@trainyard/sdk';
import { gatherGroup, PolicyModel, train } from '@trainyard/sdk/rollouts';

import { ownService, type OwnService } from '../../scripts/own-service.ts';

const BEES = [{ role: 'user' as const, content: 'What do bees make? Answer in one word.' }];
const dataDirectory = mkdtempSync(join(tmpdir(), 'trainyard-path-'));
let service: OwnService;

/** Starts on the same data folder with the same key as before. */
async function start(apiKey?: string): Promise<OwnService> {
  const environment = apiKey === undefined ? {} : { TRAINYARD_API_KEY: apiKey };
  return await ownService({ dataDirectory, environment, isFromSource: true });
}
const clientOf = ({ url, apiKey }: OwnService) => new Trainyard({ baseUrl: url, apiKey, maxRetries: 0 });

beforeAll(async () => void (service = await start()));
afterAll(async () => {
  await service.close();
  rmSync(dataDirectory, { recursive: true, force: true });
});

it('answers the openai client, streamed and whole alike', async () => {
  const openai = new OpenAI({ baseURL: service.url, apiKey: service.apiKey, maxRetries: 0 });
  const model = (await openai.models.list()).data[0]!.id;
  const asked = { model, messages: [{ role: 'user' as const, content: 'What is the capital of France?' }] };
  const settings = { temperature: 0, max_tokens: 16 };
  const whole = await openai.chat.completions.create({ ...asked, ...settings });
  const chunks = await openai.chat.completions.create({ ...asked, ...settings, stream: true });
  let streamed = '';
  for await (const chunk of chunks) streamed += chunk.choices[0]?.delta.content ?? '';
  expect(streamed).toBe(whole.choices[0]!.message.content);
  expect(streamed).toContain('Paris');
});

it('trains on rewards: the new step is served at once, and its rollouts agree with the trainer', async () => {
  const client = clientOf(service);
  const policy = await PolicyModel.open(client, { project: 'path', name: 'rl' });
  const request = { model: policy.name, messages: BEES, max_tokens: 12, n: 6, seed: 1 };
  const { group } = await gatherGroup(client, request, ({ message }) => (message.content ?? '').length / 100);
  const { step, gradientSteps } = await train(policy, [group]);
  const gap = gradientSteps[0]!['logprob_gap_mean'];
  expect(step).toBe(1);
  console.log(`sampler and trainer differ by ${gap} per token`);
  expect(gap).toBeLessThan(1e-4);
  const answer = await client.chat.completions.create({ model: policy.name, messages: BEES, max_tokens: 4 });
  expect(answer.system_fingerprint).not.toBe('trainyard-base');
});

it('finishes a supervised job after the whole service was killed, and gives the trained answer', async () => {
  const client = clientOf(service);
  const base = (await client.servedModels.list()).data[0]!.id;
  const question = { role: 'user' as const, content: 'What is the capital of Zubrovia?' };
  const artifact = { entity: 'local', project: 'path', name: 'facts' };
  const lines = [{ messages: [question, { role: 'assistant', content: 'Kelmar.' }] }];
  const { url: training_data_url } = await client.artifacts.upload(artifact, lines, { file_name: 'facts.jsonl' });
  const model = await client.models.register({ project: 'path', name: 'sft', base_model: base });
  const job = await client.sftJobs.create({
    model_id: model.id,
    training_data_url,
    config: { learning_rate: 1e-3 },
    experimental_config: { epochs: 12, warmup_steps: 2 },
  });
  let numSteps = 0;
  for await (const event of client.trainingJobs.watch(job.id)) {
    if (event.type === 'gradient_step') numSteps += 1;
    if (numSteps === 4) break;
  }
  process.kill(service.pid, 'SIGKILL');
  await service.stop();
  service = await start(service.apiKey);

  const again = clientOf(service);
  const steps = await again.trainingJobs.gradientSteps(job.id);
  expect(steps).toHaveLength(12);
  expect((await again.trainingJobs.retrieve(job.id)).status).toBe('succeeded');
  const answer = await again.chat.completions.create({
    model: 'sft',
    messages: [question],
    temperature: 0,
    max_tokens: 16,
  });
  expect(answer.choices[0]!.message.content).toBe('Kelmar.');
}, 120_000);
