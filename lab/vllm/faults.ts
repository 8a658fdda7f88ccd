import { copyFile, mkdir, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import type { HostsObject } from '@trainyard/protocol';
import { type ChatBody, Trainyard } from '@trainyard/sdk';

import { FaultyProxy } from '../../tests/support/faulty-proxy.ts';
import { scoredGroup } from '../../tests/support/groups.ts';
import { ownService, type OwnService } from '../../scripts/own-service.ts';

export interface FaultParts {
  /** A real server of the default model, without a fault. */
  readonly url: string;
  /** A real server of other weights. */
  readonly otherUrl: string;
  readonly model: string;
  readonly modelPath: string;
  readonly check: (what: string, isOk: boolean, found?: unknown) => void;
  readonly log: (line: string) => void;
}

type Member = HostsObject['sampling']['hosts'][number]['members'][number];

/** Zeroing it makes another model of the same shape and vocabulary. */
const ZEROED = 'model.layers.5.mlp.down_proj.weight';

/** Copies a model in Hugging Face's form, with one tensor set to zero. */
export async function makeOtherModel(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  for (const name of await readdir(from)) await copyFile(join(from, name), join(to, name));
  await using file = await open(join(to, 'model.safetensors'), 'r+');
  const length = Buffer.alloc(8);
  await file.read(length, 0, 8, 0);
  const headerBytes = Number(length.readBigUInt64LE());
  const header = Buffer.alloc(headerBytes);
  await file.read(header, 0, headerBytes, 8);
  const tensors = JSON.parse(header.toString()) as Record<string, { data_offsets: [number, number] }>;
  const [start, end] = tensors[ZEROED]!.data_offsets;
  await file.write(Buffer.alloc(end - start), 0, end - start, 8 + headerBytes + start);
}

/** A service with one real server, through two proxies with injected faults. */
export async function checkFaults(parts: FaultParts): Promise<void> {
  const { url, modelPath, check, log } = parts;
  await using good = await FaultyProxy.open(url);
  await using bad = await FaultyProxy.open(url);
  const service = await ownService({
    environment: { TRAINYARD_MODEL: modelPath, TRAINYARD_VLLM: `${good.url},${bad.url}` },
  });
  try {
    const faults = new Faults(service, parts, { good, bad });
    await faults.checkAnswers('broken', 'completions of one server are 500 while its health is well');
    await faults.checkAnswers('nan', 'log-probabilities of one server are NaN');
    await faults.checkAnswers('positive', 'log-probabilities of one server are above 0');
    await faults.checkAway();
    await faults.checkOtherModel();
    await faults.checkRank();
    await faults.checkPublication();
  } catch (error) {
    log(service.output().split('\n').slice(-20).join('\n'));
    check('the faults were tried to their end', false, String(error));
  } finally {
    await service.close();
  }
}

class Faults {
  readonly #service: OwnService;
  readonly #client: Trainyard;
  readonly #parts: FaultParts;
  readonly #proxies: { readonly good: FaultyProxy; readonly bad: FaultyProxy };

  constructor(service: OwnService, parts: FaultParts, proxies: { good: FaultyProxy; bad: FaultyProxy }) {
    this.#service = service;
    this.#parts = parts;
    this.#proxies = proxies;
    this.#client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
  }

  /**
   * Checks that no request fails because of one server's fault, and no bad data is passed on; the server
   * takes requests again once the fault is gone.
   */
  async checkAnswers(fault: 'broken' | 'nan' | 'positive', what: string): Promise<void> {
    const { check } = this.#parts;
    const { bad } = this.#proxies;
    bad.fault = fault;
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, index) => this.#ask(`Question ${index}: name a city.`, { logprobs: true })),
    );
    check(
      `${what}: 24 of 24 requests are answered`,
      answers.every(({ status }) => status === 200),
      answers.map(String),
    );
    const logprobs = answers.flatMap((answer) => answer.logprobs);
    check(`${what}: none is passed on`, logprobs.length > 0 && logprobs.every((value) => value <= 0 && value > -9999));
    const member = await this.#memberOf(bad);
    check(`${what}: the server gets no more requests`, member?.state === 'failing', member);
    bad.fault = null;
    check(`${what}: it gets them again after the fault`, await this.#becomes(bad, 'up', 40_000));
  }

  async checkAway(): Promise<void> {
    const { check } = this.#parts;
    const { bad } = this.#proxies;
    bad.fault = 'away';
    check('a server that is gone is down', await this.#becomes(bad, 'down', 20_000));
    const health = (await (await fetch(`${this.#service.url}/health`)).json()) as { status: string };
    this.#parts.log(`/health while one server is down: ${JSON.stringify(health)}`);
    check('and the service is degraded', health.status === 'degraded', health);
    bad.fault = null;
    check('a server that is back is up', await this.#becomes(bad, 'up', 60_000));
  }

  async checkOtherModel(): Promise<void> {
    const { check, otherUrl, url, log } = this.#parts;
    const { bad } = this.#proxies;
    const before = await this.#ask('Name a colour.', { temperature: 0 });
    const start = performance.now();
    bad.target = otherUrl;
    check('an address with another model leaves the pool', await this.#becomes(bad, 'unfit', 90_000));
    log(`another model was found after ${((performance.now() - start) / 1000).toFixed(1)} s`);
    const member = await this.#memberOf(bad);
    check(
      'and is reported so',
      /serves a(nother| different) model|has different weights/.test(member?.trouble ?? ''),
      member,
    );
    const after = await Promise.all([1, 2, 3].map(() => this.#ask('Name a colour.', { temperature: 0 })));
    check(
      'answers are as before',
      after.every(({ content }) => content === before.content),
      [before, ...after],
    );
    bad.target = url;
    check('the right model is taken again', await this.#becomes(bad, 'up', 60_000));
  }

  async checkRank(): Promise<void> {
    const { check, model } = this.#parts;
    const register = async (rank: number): Promise<string> =>
      await this.#client.models
        .register({ project: 'faults', name: `rank-${rank}`, base_model: model, lora: { rank } })
        .then(
          () => 'registered',
          (error: Error) => error.message,
        );
    const refusal = await register(17);
    check('a rank above --max-lora-rank is refused at registration', /must be at most 16/.test(refusal), refusal);
    check('the largest rank is taken', (await register(16)) === 'registered');
  }

  /** Checks that the first chat with a new step loads nothing. */
  async checkPublication(): Promise<void> {
    const { check, model, url, log } = this.#parts;
    const { id } = await this.#client.models.register({ project: 'faults', name: 'learner', base_model: model });
    const name = 'local/faults/learner';
    const group = await scoredGroup(this.#client, name, { fields: { logprobs: true } });
    const { id: jobId } = await this.#client.trainingJobs.create({ model_id: id, trajectory_groups: [group] });
    await this.#client.trainingJobs.gradientSteps(jobId);
    while (((await this.#client.trainingJobs.retrieve(jobId)) as { status: string }).status === 'running')
      await delay(50);
    const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string }[] };
    const loaded = data.filter(({ id: adapter }) => /^[0-9a-f]{64}$/.test(adapter));
    check('a new step is loaded when its job ends', loaded.length > 0, data);
    const start = performance.now();
    const { status } = await this.#ask('Name a colour.', { model: name });
    log(`first chat of the new step: ${status} after ${Math.round(performance.now() - start)} ms`);
    check('its first chat is answered', status === 200, status);
  }

  async #ask(
    content: string,
    fields: Partial<ChatBody>,
  ): Promise<{ status: number; content: string | null; logprobs: readonly number[] }> {
    const { url, apiKey } = this.#service;
    const body = { model: this.#parts.model, messages: [{ role: 'user', content }], max_tokens: 6, ...fields };
    const answer = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    type Choice = { message: { content: string }; logprobs?: { content?: { logprob: number }[] } };
    const { choices = [] } = (await answer.json()) as { choices?: Choice[] };
    const logprobs = (choices[0]?.logprobs?.content ?? []).map(({ logprob }) => logprob);
    return { status: answer.status, content: choices[0]?.message.content ?? null, logprobs };
  }

  async #memberOf({ url }: FaultyProxy): Promise<Member | undefined> {
    const { sampling } = (await this.#client.hosts.read()) as HostsObject;
    // The first of two checks shows the earlier state.
    return sampling.hosts[0]!.members.find((member) => member.url === url);
  }

  async #becomes(proxy: FaultyProxy, state: Member['state'], withinMs: number): Promise<boolean> {
    const until = Date.now() + withinMs;
    while (Date.now() < until) {
      if ((await this.#memberOf(proxy))?.state === state) return true;
      await delay(250);
    }
    return false;
  }
}
