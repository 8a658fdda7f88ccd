/**
 * Two base models in one service with a budget for one: the default model, and a tiny random one of another
 * architecture with its own vocabulary and template. Each is used, trained for a step and used again, while
 * they alternate in memory.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import OpenAI from 'openai';
import { Trainyard } from '@trainyard/sdk';
import { TINY_ARCHITECTURES, writeTinyGguf } from '@trainyard/trainer/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { defaultModelPath, ownService, type OwnService } from '../../scripts/own-service.ts';
import { scoredGroup } from '../support/groups.ts';

const LARGE = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const TINY = 'tiny/qwen3';
const TIMEOUT_MS = 600_000;
/** One model takes less, both take more. */
const BUDGET_MEGABYTES = 1100;

let folder: string;
let service: OwnService;
let client: Trainyard;
let openai: OpenAI;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-models-'));
  service = await ownService({ environment: environment(BUDGET_MEGABYTES) });
  const { url, apiKey } = service;
  client = new Trainyard({ baseUrl: url, apiKey });
  openai = new OpenAI({ baseURL: url, apiKey, maxRetries: 0 });
}, TIMEOUT_MS);
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
}, TIMEOUT_MS);

function environment(megabytes: number): Record<string, string> {
  const tiny = join(folder, 'tiny.gguf');
  writeTinyGguf(tiny, TINY_ARCHITECTURES.qwen3);
  return {
    TRAINYARD_MODEL: `${defaultModelPath()},${TINY}=${tiny}`,
    TRAINYARD_CAPACITY_TOKENS: '2048',
    TRAINYARD_MODEL_MEMORY_MEGABYTES: String(megabytes),
  };
}

const messages = [{ role: 'user' as const, content: 'What is the capital of France?' }];
const reply = async (model: string, fields: object = {}) => {
  const request = { model, messages, seed: 3, max_tokens: 12, logprobs: true, ...fields };
  const { choices } = await openai.chat.completions.create(request);
  return choices[0]!.logprobs!.content!.map(({ token, logprob }) => [token, logprob]);
};
/** Models unloaded from memory, or loaded, in order. */
const moves = () =>
  [...service.output().matchAll(/the base model (\S+) (is loaded|is unloaded)/g)].map((m) => `${m[1]} ${m[2]}`);

it('lists both with their lengths, before the second one has been in memory', async () => {
  const { data } = await openai.models.list();
  expect(data).toMatchObject([
    { id: LARGE, max_model_len: 2048 },
    { id: TINY, max_model_len: 512 },
  ]);
  expect(moves()).toEqual([]);
});

it(
  'answers from each in turns, and a seed gives the same tokens before and after the model was unloaded',
  async () => {
    const first = await reply(LARGE);
    const tiny = await reply(TINY);
    expect(await reply(LARGE)).toEqual(first);
    const turns = [`${LARGE} is unloaded`, `${TINY} is loaded`, `${TINY} is unloaded`, `${LARGE} is loaded`];
    expect(moves()).toEqual(turns);
    await expect(reply(TINY, { max_tokens: 513 })).rejects.toMatchObject({ status: 400 });
    const together = await Promise.all([
      reply(LARGE, { temperature: 0 }),
      reply(TINY),
      reply(LARGE, { temperature: 0 }),
    ]);
    expect(together[1]).toEqual(tiny);
    expect(await client.service.isHealthy()).toBe(true);
  },
  TIMEOUT_MS,
);

it(
  'trains a step on each, and serves it on its own base',
  async () => {
    for (const [name, baseModel] of [
      ['large', LARGE],
      ['tiny', TINY],
    ] as const) {
      const { id, entity } = await client.models.register({ project: 'several', name, base_model: baseModel });
      const root = `${entity}/several/${name}`;
      const job = await client.trainingJobs.create({
        model_id: id,
        trajectory_groups: [await scoredGroup(client, root)],
        experimental_config: { learning_rate: 1e-3 },
      });
      await client.trainingJobs.gradientSteps(job.id);
      const [before, after] = [await reply(`${root}:step0`), await reply(`${root}:step1`)];
      expect(before.length).toBeGreaterThan(0);
      expect(after).not.toEqual(before);
    }
    const { data } = await openai.models.list();
    const parents = Object.fromEntries(data.map((card) => [card.id, (card as { parent?: string | null }).parent]));
    expect(parents).toMatchObject({ 'local/several/large:step1': LARGE, 'local/several/tiny:step1': TINY });
  },
  TIMEOUT_MS,
);

it(
  'does not start if a single model exceeds the budget',
  async () => {
    await expect(ownService({ environment: environment(300) })).rejects.toThrow(
      /the base model \S+SmolLM2\S+ needs about \d+ MB \(weights .*\), but --model-memory-megabytes is 300/,
    );
  },
  TIMEOUT_MS,
);
