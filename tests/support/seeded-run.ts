import { createHash, randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { isRolloutMetric } from '@trainyard/protocol';
import { mixesSamplers, withSamplerNames } from '@trainyard/protocol/fields';
import { FolderBlobs, openSqliteStore, type SqlStore } from '@trainyard/store';
import { dataPaths } from '@trainyard/server';
import { OPTIMIZER_FILE, resolveTrainingConfig } from '@trainyard/trainer';

const BASE_MODEL = 'HuggingFaceTB/SmolLM2-135M-Instruct';
const MINUTE_MS = 60_000;

/** A run as it is after that many jobs, written directly to the store. */
export interface SeededRun {
  /** Folder of a service that is not running yet. */
  readonly dataDirectory: string;
  readonly name: string;
  readonly project?: string;
  /** Jobs, each with one gradient step and a checkpoint. */
  readonly numSteps: number;
  /** Groups per job. */
  readonly numGroups: number;
  /** Trajectories per group. */
  readonly groupSize: number;
  /** Each number gives a different run. Default 1. */
  readonly seed?: number;
  /** True if trajectories have texts. Default true; without them a hundred thousand take seconds. */
  readonly hasWords?: boolean;
  /** True if one more job is queued and paused. Default false. */
  readonly hasPausedJob?: boolean;
  /** True if a last job failed after a gradient step. Default false. */
  readonly hasFailedJob?: boolean;
  /** File sizes of each checkpoint, bytes. Default: no files. */
  readonly files?: { readonly adapterBytes: number; readonly optimizerBytes: number };
}

/**
 * Writes a successful run: its reward rises and its entropy falls, with some noise.
 * @returns the id of its model
 */
export async function seedRun(run: SeededRun): Promise<string> {
  const { dataDirectory, name, project = 'demo', numSteps, seed = 1, hasWords = true, hasPausedJob = false } = run;
  const paths = dataPaths(dataDirectory);
  let now = Date.now() - numSteps * 2 * MINUTE_MS;
  const store = await openSqliteStore(paths.database, { clock: () => now });
  const blobs = await FolderBlobs.open(paths.blobs);
  const random = randomOf(seed);
  try {
    const entity = await store.keys.ensureEntity('local');
    const lora = { rank: 8, alpha: 16, targets: ['q_proj', 'v_proj'], initSeed: 0 };
    const made = await store.models.create({ entityId: entity.id, project, name, baseModel: BASE_MODEL, lora });
    if (!('model' in made)) throw new Error(`the model ${name} could not be made`);
    const modelId = made.model.id;
    const config = { resolved: resolveTrainingConfig({}), ignoredKeys: [] };
    for (let step = 0; step < numSteps; step++) {
      const progress = (step + 1) / numSteps;
      const rewards = rewardsOf(run, progress, random);
      const dataKey = `groups/${modelId}-${step}`;
      if (hasWords) await blobs.putJsonLines(dataKey, groupsOf(rewards, step));
      const job = await store.jobs.enqueue({ modelId, kind: 'rl', config, dataKey, rewards });
      const claimed = (await store.jobs.claim('seed', MINUTE_MS))!;
      now += 20_000;
      await store.jobs.appendEvent(claimed.id, claimed.fencingToken, startedEvent(rewards));
      now += 40_000;
      const metrics = withSamplerNames(metricsOf(rewards, progress, random), 0);
      const named = Object.entries(metrics).map(([key, value]): [string, number] => [`train/${key}`, value]);
      const ofRollouts = Object.fromEntries(named.filter(([name]) => isRolloutMetric(name)));
      const ofUpdate = Object.fromEntries(
        named.filter(([name]) => !isRolloutMetric(name) && !mixesSamplers(name.slice('train/'.length))),
      );
      await store.jobs.appendEvent(claimed.id, claimed.fencingToken, {
        type: 'gradient_step',
        data: metrics,
        dedupeKey: 'gradient_step:0',
        metrics: ofUpdate,
        rolloutMetrics: { ...ofRollouts, ...ownMetrics(rewards, progress) },
      });
      if (step === 0) await store.jobs.appendEvent(claimed.id, claimed.fencingToken, WARNING);
      await store.jobs.succeed(job!.id, claimed.fencingToken, {
        ...(run.files === undefined ? NO_FILES : await commitFiles(store, blobs, run.files)),
        metrics: ofUpdate,
        data: { num_gradient_steps: 1 },
      });
      if (step % 5 === 4) await logVal(step, progress);
      now += MINUTE_MS;
    }
    if (run.hasFailedJob === true) await failJob();
    if (hasPausedJob) {
      const job = await store.jobs.enqueue({ modelId, kind: 'rl', config, dataKey: `groups/${modelId}-paused` });
      await store.jobs.pause(job!.id);
    }
    return modelId;

    async function failJob(): Promise<void> {
      const rewards = rewardsOf(run, 1, random);
      const dataKey = `groups/${modelId}-failed`;
      if (hasWords) await blobs.putJsonLines(dataKey, groupsOf(rewards, numSteps));
      await store.jobs.enqueue({ modelId, kind: 'rl', config, dataKey, rewards });
      const { id, fencingToken } = (await store.jobs.claim('seed', MINUTE_MS))!;
      await store.jobs.appendEvent(id, fencingToken, startedEvent(rewards));
      await store.jobs.appendEvent(id, fencingToken, {
        type: 'gradient_step',
        data: {},
        dedupeKey: 'gradient_step:0',
        metrics: { 'train/policy_loss': 7.565114901230517e32, 'train/entropy': 9 },
        rolloutMetrics: { 'train/reward': 0.2 },
      });
      await store.jobs.fail(id, fencingToken, FAILURE);
    }

    async function logVal(step: number, progress: number): Promise<void> {
      const rewards = rewardsOf(run, Math.max(0, progress - 0.08), random);
      const blobKey = `logs/${modelId}-${step}`;
      if (hasWords) await blobs.putJsonLines(blobKey, groupsOf(rewards, step));
      const flat = rewards.flat();
      const counts = { numGroups: rewards.length, numTrajectories: flat.length, numExceptions: 0 };
      const metrics = { 'val/reward': mean(flat) };
      await store.trajectories.recordLog({ modelId, split: 'val', blobKey, metrics, rewards, ...counts });
    }
  } finally {
    await store.close();
    await blobs.close();
  }
}

const FAILURE =
  'the loss is NaN at gradient step 1: the `learning_rate` of 1e30 is 7.565114901230517e+32 times a suitable one (trainer.diverged)';

const NO_FILES = { directoryKey: null, digest: null };

async function commitFiles(store: SqlStore, blobs: FolderBlobs, files: NonNullable<SeededRun['files']>) {
  const directoryKey = `checkpoints/${randomUUID()}`;
  const staged = await blobs.stageDirectory();
  await writeFile(join(staged, 'adapter_model.safetensors'), Buffer.alloc(files.adapterBytes, directoryKey));
  await writeFile(join(staged, OPTIMIZER_FILE), Buffer.alloc(files.optimizerBytes, directoryKey));
  await store.files.announce(directoryKey);
  await blobs.commitDirectory(staged, directoryKey);
  return { directoryKey, digest: createHash('sha256').update(directoryKey).digest('hex') };
}

const WARNING = {
  type: 'warning',
  data: {
    code: 'learning_rate_low',
    message: 'the learning rate 5e-6 is 264 times below a suitable one',
    value: 5e-6,
    suggestion: 'set `learning_rate` to about 1e-3',
  },
  dedupeKey: 'warning:learning_rate_low',
};

const PROMPTS = ['What is the capital of France?', 'Name a prime between 20 and 30.', 'Spell "train" backwards.'];
const GOOD = ['Paris.', '23', 'niart'];
const BAD = [
  'There are many cities in France, and each of them has something to offer to whoever visits it.',
  'A prime number is a number that is larger than one and has no divisors but one and itself, such as 25.',
  'train train train',
];

function groupsOf(rewards: readonly (readonly number[])[], step: number): object[] {
  return rewards.map((group, groupIndex) => {
    const topic = (groupIndex + step) % PROMPTS.length;
    const trajectories = group.map((reward) => ({
      messages_and_choices: [
        { role: 'system', content: 'Answer in as few words as you can.' },
        { role: 'user', content: PROMPTS[topic] },
        { role: 'assistant', content: reward > 0.5 ? GOOD[topic] : BAD[topic] },
      ],
      reward,
      metrics: {},
      metadata: {},
    }));
    return { trajectories };
  });
}

function rewardsOf({ numGroups, groupSize }: SeededRun, progress: number, random: () => number): number[][] {
  const level = 0.1 + 0.8 / (1 + Math.exp(-7 * (progress - 0.45)));
  return Array.from({ length: numGroups }, () =>
    Array.from({ length: groupSize }, () => {
      const reward = level + (random() - 0.5) * 0.55;
      return Math.round(Math.min(1, Math.max(0, reward)) * 100) / 100;
    }),
  );
}

function startedEvent(rewards: readonly (readonly number[])[]) {
  const outcomes = rewards.map((group) => (new Set(group).size === 1 ? 'equal_rewards' : 'trained'));
  return {
    type: 'training_started',
    data: { num_sequences: 1, num_groups_submitted: rewards.length, group_outcomes: outcomes },
    dedupeKey: 'training_started',
    outcomes: rewards.map((group, index) =>
      group.map((reward) => ({ outcome: outcomes[index]!, advantage: reward - mean(group) })),
    ),
  };
}

/** Own metrics of the rollouts, as the service computes them from a job. */
function ownMetrics(rewards: readonly (readonly number[])[], progress: number): Record<string, number> {
  const flat = rewards.flat();
  return {
    'train/rollouts/solved_share': flat.filter((reward) => reward === 1).length / flat.length,
    'train/rollouts/reply_tokens': 40 - 30 * progress,
    'train/rollouts/cut_off_share': 0.2 * (1 - progress),
    'train/rollouts/words': 25 - 20 * progress,
  };
}

function metricsOf(rewards: readonly (readonly number[])[], progress: number, random: () => number) {
  const noise = (size: number) => (random() - 0.5) * size;
  const flat = rewards.flat();
  return {
    reward: mean(flat),
    reward_std_dev: mean(rewards.map((group) => deviation(group))),
    policy_loss: -0.02 + noise(0.03),
    entropy: 1.9 - 1.2 * progress + noise(0.1),
    grad_norm: 0.4 + 0.5 * random(),
    learning_rate: 2e-4,
    kl_base: 0.35 * progress ** 1.5 + noise(0.01),
    kl_sampler: 2e-5 + random() * 1e-5,
    clip_fraction: 0.02 + 0.03 * random(),
    ratio_mean: 1 + noise(0.004),
    ratio_max: 1.2 + random() * 0.3,
    logprob_gap_mean: 4e-6 + random() * 2e-6,
    logprob_gap_p99: 2e-5 + random() * 1e-5,
    logprob_gap_max: 9e-5 + random() * 5e-5,
    probs_corr: 0.9999 - random() * 1e-4,
    exception_rate: 0,
    num_groups_submitted: rewards.length,
    num_groups_trainable: rewards.length - Math.floor(progress * 2),
    num_groups_dropped_equal_rewards: Math.floor(progress * 2),
    num_trajectories: flat.length,
    num_trainable_tokens: 400 + Math.round(200 * random()),
    tokens_per_second: 420 + noise(60),
    seconds_forward: 3 + random(),
    seconds_backward: 6 + random(),
    peak_memory_mb: 910 + noise(20),
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}

function deviation(values: readonly number[]): number {
  const center = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - center) ** 2)));
}

/** Mulberry32: the same numbers on every machine. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
