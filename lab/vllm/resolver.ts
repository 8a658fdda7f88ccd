import { readdir } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';

import { Trainyard } from '@trainyard/sdk';

import { scoredGroup } from '../../tests/support/groups.ts';
import { ownService } from '../../scripts/own-service.ts';

export interface ResolverParts {
  /** A real server whose own resolver searches {@link folder}. */
  readonly url: string;
  readonly folder: string;
  readonly model: string;
  readonly modelPath: string;
  readonly check: (what: string, isOk: boolean, found?: unknown) => void;
}

/** Maximum difference between log-probabilities of one server with one adapter. */
const TOLERANCE = 1e-3;

type Scores = readonly number[];
type Place = Record<string, { logprob: number }> | null;

/**
 * Checks that vLLM's resolver finds a step in the folder of `--vllm-adapter-dir` by its digest, and samples
 * the same from it.
 */
export async function checkResolver({ url, folder, model, modelPath, check }: ResolverParts): Promise<void> {
  const service = await ownService({
    environment: { TRAINYARD_MODEL: modelPath, TRAINYARD_VLLM: url, TRAINYARD_VLLM_ADAPTER_DIR: folder },
  });
  try {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
    const { id } = await client.models.register({ project: 'vllm', name: 'resolved', base_model: model });
    const name = 'local/vllm/resolved';
    const group = await scoredGroup(client, name, { fields: { logprobs: true } });
    const { id: jobId } = await client.trainingJobs.create({
      model_id: id,
      trajectory_groups: [group],
      experimental_config: { learning_rate: 1e-2 },
    });
    while ((await client.trainingJobs.retrieve(jobId)).finished_at === null) await delay(100);
    const digests = (await readdir(folder)).filter((entry) => /^[0-9a-f]{64}$/.test(entry));
    check('a step is one folder of the resolver, under its digest', digests.length === 1, digests);
    const [digest = 'none'] = digests;
    const { tokens } = (await answerOf(`${service.url}/tokenize`, service.apiKey, {
      model,
      prompt: 'The yard is where the river bends, and twelve tracks run side by side.',
    })) as { tokens: number[] };
    const body = { prompt: tokens, max_tokens: 1, temperature: 0, prompt_logprobs: 0 };
    const here = scoresOf(await answerOf(`${service.url}/completions`, service.apiKey, { ...body, model: name }));
    const base = scoresOf(await answerOf(`${url}/v1/completions`, null, { ...body, model: 'base' }));
    await fetch(`${url}/v1/unload_lora_adapter`, post(null, { lora_name: digest }));
    check('an adapter that was unloaded is not listed', !(await listed(url)).includes(digest), await listed(url));
    const there = scoresOf(await answerOf(`${url}/v1/completions`, null, { ...body, model: digest }));
    check('the resolver of vLLM finds it by its digest', (await listed(url)).includes(digest), await listed(url));
    check('and samples from it as the service does', here.length > 0 && distance(here, there) < TOLERANCE, there);
    check('and not from the base model', distance(base, there) > 10 * TOLERANCE, { base, there });
    const unknown = await fetch(`${url}/v1/completions`, post(null, { ...body, model: '0'.repeat(64) }));
    check('an adapter that is not in the folder is unknown', unknown.status === 404, unknown.status);
  } catch (error) {
    check('the resolver was tried to its end', false, String(error));
  } finally {
    await service.close();
  }
}

function post(apiKey: string | null, body: object): RequestInit {
  const key = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
  return { method: 'POST', headers: { 'content-type': 'application/json', ...key }, body: JSON.stringify(body) };
}

async function answerOf(url: string, apiKey: string | null, body: object): Promise<unknown> {
  const answer = await fetch(url, post(apiKey, body));
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  return await answer.json();
}

function scoresOf(answer: unknown): Scores {
  const { choices } = answer as { choices: { prompt_logprobs: Place[] }[] };
  return choices[0]!.prompt_logprobs.flatMap((place) => (place === null ? [] : [Object.values(place)[0]!.logprob]));
}

function distance(one: Scores, other: Scores): number {
  return Math.max(...one.map((logprob, at) => Math.abs(logprob - (other[at] ?? NaN))));
}

async function listed(url: string): Promise<string[]> {
  const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
  return data.map(({ id }) => id);
}
