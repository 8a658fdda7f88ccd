import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { Trainyard } from '@trainyard/sdk';

import type { OwnService } from '../../scripts/own-service.ts';
import { scoredGroup } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';

let service: OwnService;
let client: Trainyard;
let base: string;
beforeAll(async () => {
  service = await smallService();
  client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
  base = (await client.servedModels.list()).data[0]!.id;
});
afterAll(() => service.close());

const register = (name: string, lora?: object) =>
  client.models.register({ project: 'p', name, base_model: base, ...(lora ? { lora } : {}) });

/** Resolves when the job has an event of that type, with the elapsed milliseconds. */
async function reached(jobId: string, type: string): Promise<number> {
  const started = performance.now();
  for (;;) {
    const { data } = await client.trainingJobs.events(jobId, { limit: 100 });
    if (data.some((event) => event.type === type)) return performance.now() - started;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

describe('a running job', () => {
  it('is paused and cancelled between two gradient steps, and continues after its last gradient step', async () => {
    const [one, two] = [await register('one'), await register('two')];
    // One gradient step per group: short enough for a loaded machine, long enough to be interrupted.
    const config = { learning_rate: 1e-4, gradient_steps: 4 };
    const groups = await Promise.all(
      Array.from({ length: 4 }, (_, index) =>
        scoredGroup(client, 'one', {
          prompt: `Say ${index}. ${'Please. '.repeat(30)}`,
          seed: 10 * index,
          maxTokens: 4,
        }),
      ),
    );
    const small = [await scoredGroup(client, 'two')];

    const job = await client.trainingJobs.create({
      model_id: one.id,
      trajectory_groups: groups,
      experimental_config: config,
    });
    await reached(job.id, 'gradient_step');
    // Now in the middle of a later step: a waiting job starts after it has stopped.
    const behind = await client.trainingJobs.create({ model_id: two.id, trajectory_groups: small });
    const paused = await client.trainingJobs.pause(job.id);
    const pauseMs = await reached(behind.id, 'training_started');
    expect(paused).toMatchObject({ status: 'queued', is_paused: true });
    expect(paused.num_gradient_steps_done).toBeLessThan(4);
    await client.trainingJobs.gradientSteps(behind.id);
    expect(await client.trainingJobs.retrieve(job.id)).toEqual(paused);

    await client.trainingJobs.resume(job.id);
    const steps = await client.trainingJobs.gradientSteps(job.id);
    expect(await client.trainingJobs.retrieve(job.id)).toMatchObject({
      status: 'succeeded',
      num_gradient_steps_done: 4,
      counts: { num_sequences: 4, num_groups_trainable: 4 },
      group_outcomes: ['trained', 'trained', 'trained', 'trained'],
    });
    expect(steps).toHaveLength(4);

    // The pause had no effect: a twin without a pause ends with the same weights.
    const twin = await register('twin');
    await client.trainingJobs.gradientSteps(
      (await client.trainingJobs.create({ model_id: twin.id, trajectory_groups: groups, experimental_config: config }))
        .id,
    );
    const prints = await Promise.all(
      ['one', 'twin'].map((model) =>
        client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 }),
      ),
    );
    expect(prints[0]!.system_fingerprint).toMatch(/^trainyard-[0-9a-f]{8}$/);
    expect(prints[1]!.system_fingerprint).toBe(prints[0]!.system_fingerprint);

    const doomed = await client.trainingJobs.create({
      model_id: one.id,
      trajectory_groups: groups,
      experimental_config: config,
    });
    await reached(doomed.id, 'training_started');
    const next = await client.trainingJobs.create({ model_id: two.id, trajectory_groups: small });
    await client.trainingJobs.cancel(doomed.id);
    const cancelMs = await reached(next.id, 'training_started');
    await expect(client.trainingJobs.gradientSteps(doomed.id)).rejects.toThrow('cancelled');
    await client.trainingJobs.gradientSteps(next.id);
    const { data } = await client.checkpoints.list(one.id, { order: 'desc', limit: 1 });
    expect(data[0]?.step).toBe(1);
    console.log(`the next job began ${pauseMs.toFixed(0)} ms after a pause, ${cancelMs.toFixed(0)} ms after a cancel`);
  }, 300_000);
});

describe('a model that starts from another one', () => {
  it('is at distance 0 from its own step 0, and trains with every setting at once', async () => {
    const teacher = await register('teacher', { rank: 4, targets: ['q_proj', 'v_proj'], init_seed: 3 });
    const group = await scoredGroup(client, 'teacher');
    await client.trainingJobs.gradientSteps(
      (
        await client.trainingJobs.create({
          model_id: teacher.id,
          trajectory_groups: [group],
          experimental_config: { learning_rate: 1e-3 },
        })
      ).id,
    );
    const pupil = await register('pupil', { init_from: 'teacher:step1' });
    expect(pupil.lora).toMatchObject({ rank: 4, alpha: 8, init_from: 'local/p/teacher:step1' });
    const greedy = { messages: [{ role: 'user', content: 'Say something.' }], temperature: 0, max_tokens: 12 };
    const [first, second] = [
      await client.chat.completions.create({ model: 'teacher', ...greedy }),
      await client.chat.completions.create({ model: 'pupil', ...greedy }),
    ];
    expect(second.choices[0]?.message.content).toBe(first.choices[0]?.message.content);
    expect(second.system_fingerprint).toBe(first.system_fingerprint);

    const job = await client.trainingJobs.create({
      model_id: pupil.id,
      trajectory_groups: [await scoredGroup(client, 'pupil')],
      experimental_config: {
        learning_rate: 1e-4,
        epsilon: 0.2,
        epsilon_high: 0.28,
        importance_sampling_level: 'geometric_average',
        max_negative_advantage_importance_sampling_weight: 10,
        mask_prob_ratio: true,
        kimi_k2_tau: 0.1,
        precalculate_logprobs: true,
        advantage_balance: 0.1,
        scale_rewards: false,
        allow_training_without_logprobs: true,
        truncated_importance_sampling: 2,
        kl_penalty_coef: 0.1,
        kl_penalty_reference_step: 0,
        kl_penalty_source: 'sample',
        entropy_coef: 0.001,
        packed_sequence_length: 1024,
        num_trajectories_learning_rate_multiplier_power: 0.5,
        learning_rate_schedule: 'cosine',
        learning_rate_warmup_steps: 1,
        learning_rate_decay_steps: 10,
        max_grad_norm: 1,
      },
    });
    const [step] = await client.trainingJobs.gradientSteps(job.id);
    // Fresh weights: the policy is the reference, and its distance to the sampler is the gap of the two
    // programs.
    expect(step!['kl_policy_ref_k3']).toBe(0);
    expect(Math.abs(step!['kl_policy_ref']!)).toBeLessThan(0.02);
    expect(step!['ratio_max']).toBe(1);
    expect(step!['logprob_gap_mean']).toBeLessThan(0.005);
    expect(step!['learning_rate']).toBeCloseTo(1e-4 * 0.5 * Math.sqrt(4), 12);
    expect(step!['peak_memory_mb']).toBeGreaterThan(100);
    console.log(`gap to the sampler: mean ${step!['logprob_gap_mean']}, max ${step!['logprob_gap_max']}`);
    const { data } = await client.checkpoints.list(pupil.id, { order: 'desc', limit: 1 });
    expect(data[0]?.metrics).toMatchObject({ 'train/kl_policy_ref_k3': 0, 'train/num_groups_trainable': 1 });
  });
});
