import { encodeTokenTrace, type TracedSequence } from '@trainyard/trainer';

import type { TestServer } from './test-server.ts';
import type { InferenceBackend } from '../seams/contract/backends.ts';

const STEPS = 4;
const GROUPS = 6;
const ROLLOUTS = 8;
const WORDS = ['sea', 'storm', 'harbour', 'lantern', 'gull', 'anchor', 'tide', 'sail'];

/**
 * Fills a model `acme/demo/agent` for the dashboard: some steps of rollouts with their tokens, a dropped
 * group, a tool call, a log of another split; and with `many`, a model `acme/demo/large` with that many
 * rollouts.
 */
export async function fillDashboard<Inference extends InferenceBackend>(
  server: TestServer<Inference>,
  { many = 0 }: { many?: number } = {},
): Promise<{ modelId: string; largeId: string | null }> {
  const modelId = await server.makeModel('agent');
  for (let step = 0; step < STEPS; step++) await addStep(server, modelId, step);
  await server.request('POST', `/v1/preview/models/${modelId}/log`, {
    split: 'val',
    trajectory_groups: [{ trajectories: [rollout(0, STEPS, 0), rollout(0, STEPS, 1)] }],
  });
  if (many === 0) return { modelId, largeId: null };
  const largeId = await server.makeModel('large');
  const rewards = Array.from({ length: 125 }, (_, group) =>
    Array.from({ length: 8 }, (__, index) => (group * index) % 7),
  );
  for (let added = 0; added < many; added += 1000) {
    const counts = { numGroups: 125, numTrajectories: 1000, numExceptions: 0 };
    await server.store.trajectories.recordLog({
      modelId: largeId,
      split: 'val',
      blobKey: `logs/${added}`,
      metrics: {},
      rewards,
      ...counts,
    });
  }
  return { modelId, largeId };
}

async function addStep<Inference extends InferenceBackend>(
  server: TestServer<Inference>,
  modelId: string,
  step: number,
): Promise<void> {
  const groups = Array.from({ length: GROUPS }, (_, group) => ({
    trajectories: Array.from({ length: ROLLOUTS }, (__, index) => rollout(group, step, index)),
    metadata: { scenario_id: `scenario-${group}` },
  }));
  await server.request('POST', '/v1/preview/training-jobs', { model_id: modelId, trajectory_groups: groups });
  const job = await server.store.jobs.claim('sample', 600_000);
  if (job === null) throw new Error('the job was not queued');
  const outcomes = groups.map(({ trajectories }, group) =>
    trajectories.map(({ reward }) =>
      group === 1
        ? { outcome: 'equal_rewards', advantage: null }
        : { outcome: 'trained', advantage: reward - (ROLLOUTS - 1) / 2 / ROLLOUTS - step / 10 },
    ),
  );
  await server.store.jobs.appendEvent(job.id, job.fencingToken, { type: 'training_started', data: {}, outcomes });
  const traces = groups.flatMap(({ trajectories }, groupIndex) =>
    groupIndex === 1
      ? []
      : trajectories.map((one, trajectoryIndex) => ({
          groupIndex,
          trajectoryIndex,
          trace: encodeTokenTrace([sequenceOf(one.reward)], (id) =>
            Buffer.from(id === 0 ? 'Say a word.\n' : ` ${WORDS[id - 1]}`),
          ),
        })),
  );
  const metrics = { 'train/reward': 0.3 + step / 10, 'train/reward_std_dev': 0.2, 'train/loss': -0.1 };
  await server.store.jobs.appendEvent(job.id, job.fencingToken, {
    type: 'gradient_step',
    data: metrics,
    metrics,
    traces: { gradientStep: 0, traces, maxBytes: 1e8 },
  });
  await server.store.jobs.succeed(job.id, job.fencingToken, { directoryKey: null, digest: null, metrics });
}

function rollout(group: number, step: number, index: number) {
  const reward = group === 1 ? 0.5 : index / ROLLOUTS + step / 10;
  const said = `${WORDS.slice(0, 2 + index).join(' ')}${step > 1 ? ' and home' : ''}`;
  const ids = WORDS.slice(0, 2 + index).map((_, place) => place + 1);
  const choice = {
    finish_reason: 'stop',
    index: 0,
    token_ids: ids,
    logprobs: {
      content: ids.map((id) => ({
        token: `token_id:${id}`,
        bytes: [...Buffer.from(` ${WORDS[id - 1]}`)],
        logprob: -id / 3,
      })),
    },
    message: { role: 'assistant', content: said, reasoning: 'Something with water.' },
  };
  const called = { name: 'score', arguments: JSON.stringify({ text: said }) };
  return {
    reward,
    metrics: { words: ids.length },
    tools: [{ type: 'function', function: { name: 'score', parameters: { type: 'object' } } }],
    messages_and_choices: [
      { role: 'system', content: 'You say words.' },
      { role: 'user', content: `Say words of scenario ${group}.` },
      ...(index % 4 === 0
        ? [
            {
              finish_reason: 'tool_calls',
              index: 0,
              token_ids: [1],
              logprobs: { content: [{ token: 'token_id:1', logprob: -1 }] },
              message: {
                role: 'assistant',
                content: null,
                tool_calls: [{ id: 'c1', type: 'function', function: called }],
              },
            },
            { role: 'tool', tool_call_id: 'c1', content: String(reward) },
          ]
        : []),
      choice,
    ],
  };
}

function sequenceOf(reward: number): TracedSequence {
  const tokenIds = Int32Array.from({ length: 9 }, (_, id) => id);
  const of = (scale: number) => Float32Array.from(tokenIds, (id) => (id === 0 ? Number.NaN : -id * scale));
  return {
    tokenIds,
    sampledLogprobs: of(0.6),
    trainedLogprobs: of(0.6 + reward / 9),
    entropies: of(-0.3),
    advantage: reward - 0.5,
    weight: 0.125,
  };
}
