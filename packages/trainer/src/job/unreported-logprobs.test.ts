import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DEFAULT_SAMPLING } from '@trainyard/protocol/fields';
import { type ChoiceItem, TraceWriter } from '@trainyard/tokenizer';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { resolveTrainingConfig } from '../config/training-config.ts';
import { packRows } from '../packing/pack.ts';
import { trainingSequences } from '../rollouts/training-sequences.ts';
import type { TrajectoryGroup } from '../rollouts/trajectory.ts';
import { BIGRAM_LORA, BigramPolicy } from '../testing/bigram-policy.ts';
import { answer, byteTemplate, group } from '../testing/chat-groups.ts';
import { localParts } from '../testing/local-parts.ts';
import { runTrainingJob } from './run-training-job.ts';
import type { TrainerEvent, TrainingJob } from './training-job.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'unreported-'));
});
afterEach(() => rm(directory, { recursive: true }));

/** Drawn at a temperature of nearly 1, computed as 1. */
function drawn(logprobs: (place: number) => number, policyDigest: string | null): TrajectoryGroup {
  return group(
    ...['yes', 'no', 'well'].map((text, index) => {
      const trajectory = answer(index, text, 'hi');
      const [question, sampled] = trajectory.histories[0]!.items;
      const trace = new TraceWriter();
      const { tokenIds } = sampled as ChoiceItem;
      tokenIds.forEach((_, place) => trace.add({ logprob: logprobs(place), kept: null }));
      const sampling = {
        settings: { ...DEFAULT_SAMPLING, temperature: 0.999, isMasked: false },
        trace: trace.finish(),
        lost: null,
      };
      return {
        ...trajectory,
        histories: [{ items: [question!, { ...sampled, sampling, policyDigest } as ChoiceItem], tools: null }],
      };
    }),
  );
}

async function train(groups: TrajectoryGroup[], overrides: Partial<TrainingJob> = {}) {
  const model = new BigramPolicy();
  const events: TrainerEvent[] = [];
  const name = `out-${Math.random()}`;
  const job: TrainingJob = {
    jobId: name,
    groups,
    config: resolveTrainingConfig({ learningRate: 0.05, gradientSteps: 1, maxGradNorm: 10 }),
    lora: BIGRAM_LORA,
    startFrom: null,
    snapshots: join(directory, `${name}-work`),
    output: join(directory, name),
    seed: 1,
    ...overrides,
  };
  const parts = {
    ...localParts({ policy: model, gate: GATE }),
    template: byteTemplate,
    signal: new AbortController().signal,
    emit: (event: TrainerEvent) => void events.push(event),
  };
  await runTrainingJob(job, parts);
  const step = events.find((event) => event.kind === 'gradient_step');
  const started = events.find((event) => event.kind === 'training_started');
  return { output: job.output, metrics: step?.metrics ?? {}, data: started!.data };
}

const GATE = { isWanted: false, acquire: async () => {}, release: () => {} };
const NOT_REPORTED = () => Number.NaN;

it('are those of the adapter that drew the tokens, for any start of the job', async () => {
  const { output: older } = await train([drawn(() => -2, null)]);
  const { output: newer } = await train([drawn(() => -1, null)], { startFrom: older });
  const policyVersions = new Map([
    ['older', older],
    ['newer', newer],
  ]);
  const onPolicy = await train([drawn(NOT_REPORTED, 'newer')], { startFrom: newer, policyVersions });
  expect(onPolicy.metrics).toMatchObject({ ratio_mean: 1, logprob_gap_max: 0 });
  expect(onPolicy.metrics['num_computed_logprobs']).toBe(9);
  // The same numbers, reported: from a job that starts from the older weights, where the ratio is 1.
  for (const digest of ['older', null]) {
    const reported = await logprobsUnder(digest === null ? null : older);
    const unreported = await train([drawn(NOT_REPORTED, digest)], { startFrom: newer, policyVersions });
    const told = await train([reported], { startFrom: newer, policyVersions });
    for (const key of ['policy_loss', 'grad_norm', 'ratio_mean', 'logprob_gap_mean'])
      expect(unreported.metrics[key], key).toBeCloseTo(told.metrics[key]!, 6);
    expect(unreported.metrics['logprob_gap_max']).toBeGreaterThan(0);
  }
});

it('choices are not trained if their adapter is gone', async () => {
  const { metrics, data } = await train([drawn(NOT_REPORTED, 'gone')]);
  expect(metrics).toEqual({});
  expect(data).toMatchObject({ refused_choices: { policy_gone: 3 }, num_trainable_tokens: 0 });
});

/** Read from the policy's own forward pass. */
async function logprobsUnder(version: string | null): Promise<TrajectoryGroup> {
  const { learner } = localParts({ policy: new BigramPolicy(), gate: GATE });
  const config = resolveTrainingConfig({});
  const unreported = drawn(NOT_REPORTED, null);
  const signal = new AbortController().signal;
  const { sequences, maxTokens } = await trainingSequences([unreported], {
    template: byteTemplate,
    config,
    signal,
    hasPolicy: () => true,
  });
  const logprobs = new Map<string, number[]>();
  for (const { row, members } of packRows(sequences, maxTokens, 1)) {
    const [output] = await learner.forward([row], { under: version === null ? 'base' : { version } });
    let at = 0;
    for (const { trajectoryIndex, lossMask } of members) {
      const numTrained = lossMask.reduce((sum, flag) => sum + flag, 0);
      logprobs.set(String(trajectoryIndex), Array.from(output!.logprobs.subarray(at, at + numTrained)));
      at += numTrained;
    }
  }
  const trajectories = unreported.trajectories.map((trajectory, index) => {
    const [question, item] = trajectory.histories[0]!.items;
    const sampled = item as ChoiceItem;
    const { sampling, ...rest } = sampled;
    // One without an advantage is not trained.
    const trace = {
      ...sampling!.trace!,
      logprobs: Float32Array.from(logprobs.get(String(index)) ?? sampled.tokenIds.map(() => -1)),
    };
    return {
      ...trajectory,
      histories: [{ items: [question!, { ...rest, sampling: { ...sampling!, trace } }], tools: null }],
    };
  });
  return { ...unreported, trajectories };
}
