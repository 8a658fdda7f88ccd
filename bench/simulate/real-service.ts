import { setTimeout as delay } from 'node:timers/promises';

import type { OwnService } from '../../scripts/own-service.ts';
import { median } from '../percentile.ts';
import type { MeasuredTimes } from './measured-times.ts';
import type { StepShape } from './simulate.ts';

interface Choice {
  readonly message: { readonly content: string };
}

/** Rounds of each measurement. */
const NUM_ROUNDS = 3;

/** Steps of reinforcement learning on a real service, timed from outside. */
export class RealService {
  readonly #service: OwnService;
  #baseModel = '';
  #numPrompts = 0;

  constructor(service: OwnService) {
    this.#service = service;
  }

  async begin(): Promise<void> {
    const { data } = await this.#call<{ data: { id: string }[] }>('GET', '/models');
    this.#baseModel = data[0]!.id;
    // The first computation takes longest.
    await this.#chat(this.#baseModel, 4, 4, 8);
  }

  /** @returns name and id of the model */
  async register(name: string): Promise<{ id: string; name: string }> {
    const body = { project: 'simulate', name, base_model: this.#baseModel, entity: null };
    const { id } = await this.#call<{ id: string }>('POST', '/preview/models', body);
    return { id, name: `local/simulate/${name}` };
  }

  /** Measures the parts of a step on this machine, one after the other, without other work. */
  async measure(shape: StepShape): Promise<Omit<MeasuredTimes, 'sharedSpeed'>> {
    const { groupSize, promptTokens, replyTokens, numGroups } = shape;
    const base = this.#baseModel;
    const rounds: number[][] = [];
    for (let round = 0; round < NUM_ROUNDS; round++) {
      const short = await timed(() => this.#chat(base, 1, 1, promptTokens));
      const one = await timed(() => this.#chat(base, 1, replyTokens + 1, promptTokens));
      const many = await timed(() => this.#chat(base, groupSize, replyTokens + 1, promptTokens));
      rounds.push([short, (one - short) / replyTokens, (many - short) / replyTokens]);
    }
    const [first, one, many] = [0, 1, 2].map((at) => median(rounds.map((round) => round[at]!))) as [
      number,
      number,
      number,
    ];
    const sequenceSeconds = Math.max(0, (many - one) / (groupSize - 1));
    const stepSeconds = Math.max(0, one - sequenceSeconds);
    const model = await this.register('measured');
    const jobs: number[] = [];
    const adapters: number[] = [];
    for (const groups of [1, numGroups, 1, numGroups]) {
      const sampled = await Promise.all(Array.from({ length: groups }, () => this.#group(model.name, shape)));
      jobs.push(await timed(() => this.#train(model.id, sampled)));
      const fresh = await timed(() => this.#chat(model.name, 1, 1, promptTokens));
      adapters.push(fresh - first);
    }
    const [small, large] = [Math.min(jobs[0]!, jobs[2]!), Math.min(jobs[1]!, jobs[3]!)];
    const trajectorySeconds = Math.max(0, (large - small) / ((numGroups - 1) * groupSize));
    return {
      stepSeconds,
      sequenceSeconds,
      promptTokenSeconds: Math.max(0, (first - one) / promptTokens),
      adapterSeconds: Math.max(0, median(adapters)),
      jobSeconds: Math.max(0, small - trajectorySeconds * groupSize),
      trajectorySeconds,
    };
  }

  /** Runs one step of a model. @returns seconds of its rollouts, and of its job including the wait */
  async step(model: { id: string; name: string }, shape: StepShape): Promise<{ sampling: number; training: number }> {
    let groups: object[] = [];
    const sampling = await timed(async () => {
      groups = await Promise.all(Array.from({ length: shape.numGroups }, () => this.#group(model.name, shape)));
    });
    return { sampling, training: await timed(() => this.#train(model.id, groups)) };
  }

  async #group(model: string, { groupSize, replyTokens, promptTokens }: StepShape): Promise<object> {
    const { messages, choices } = await this.#chat(model, groupSize, replyTokens, promptTokens);
    return {
      trajectories: choices.map((choice, reward) => ({ messages_and_choices: [...messages, choice], reward })),
    };
  }

  async #train(modelId: string, groups: readonly object[]): Promise<void> {
    const body = {
      model_id: modelId,
      trajectory_groups: groups,
      experimental_config: { learning_rate: 1e-5, gradient_steps: 1 },
    };
    const { id } = await this.#call<{ id: string }>('POST', '/preview/training-jobs', body);
    for (;;) {
      const { status } = await this.#call<{ status: string }>('GET', `/preview/training-jobs/${id}`);
      if (status === 'succeeded') return;
      if (status === 'failed') throw new Error(`the job ${id} failed`);
      await delay(50);
    }
  }

  /** A prompt of about that many tokens that no cache has. */
  async #chat(model: string, n: number, maxTokens: number, promptTokens: number) {
    const words = Array.from({ length: Math.max(1, promptTokens - 30) }, (_, at) => (at * 7 + this.#numPrompts) % 10);
    const messages = [{ role: 'user', content: `${this.#numPrompts++}: ${words.join(' ').slice(0, promptTokens)}` }];
    const body = { model, messages, n, max_tokens: maxTokens, ignore_eos: true, logprobs: true };
    const { choices } = await this.#call<{ choices: Choice[] }>('POST', '/chat/completions', body);
    return { messages, choices };
  }

  async #call<Answer>(method: string, path: string, body?: object): Promise<Answer> {
    const { url, apiKey } = this.#service;
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
    const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
    const answer = await fetch(`${url}${path}`, init);
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as Answer;
  }
}

/** @returns seconds */
async function timed(run: () => Promise<unknown>): Promise<number> {
  const from = performance.now();
  await run();
  return (performance.now() - from) / 1000;
}
