import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { resolveTrainingConfig, type TrainingConfigInput } from '../config/training-config.ts';
import { seededRandom } from '../packing/random.ts';
import { BIGRAM_LORA, BigramPolicy } from '../testing/bigram-policy.ts';
import { byteTemplate, group, message } from '../testing/chat-groups.ts';
import { localParts } from '../testing/local-parts.ts';
import { runTrainingJob } from './run-training-job.ts';
import type { Trajectory } from '../rollouts/trajectory.ts';

/**
 * Whole groups per step against rows as steps: a one-matrix policy learns from its own rollouts, with the same
 * number of rollouts, rate and seeds.
 */
const NUM_PROMPTS = 8;
const NUM_ROLLOUTS = 8;
const NUM_JOBS = 10;
const LETTERS = [...Buffer.from('abcdefgh')];
/** Lengths differ between prompts, so that rows pack badly. */
const numLetters = (prompt: number): number => 4 + ((5 * prompt) % 7);

/** Scores, 0–1. */
const TASKS: Readonly<Record<string, (reply: readonly number[], prompt: number) => number>> = {
  'one letter': (reply) => reply.filter((id) => id === LETTERS[2]).length / reply.length,
  'a letter for each prompt': (reply, prompt) => reply.filter((id) => id === LETTERS[prompt % 3]).length / reply.length,
};
const WAYS: Readonly<Record<string, TrainingConfigInput>> = {
  'whole groups': {},
  'rows as steps': { stepPerRow: true },
  'one step': { gradientSteps: 1 },
};

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'steps-that-learn-'));
});
afterEach(() => rm(directory, { recursive: true }));

/** The log-probabilities are among the eight letters. */
async function sample(policy: BigramPolicy, prompt: number, random: () => number) {
  const start = byteTemplate.render([{ role: 'user', content: `${prompt} `.repeat(1 + prompt) }]).tokenIds;
  const tokenIds: number[] = [];
  const logprobs: number[] = [];
  while (tokenIds.length < numLetters(prompt)) {
    const ids = [...start, ...tokenIds];
    const sources = new Int32Array(LETTERS.length).fill(ids.length - 1);
    const { logprobs: all } = await policy.forward({
      tokenIds: Int32Array.from(ids),
      positions: Int32Array.from(ids.keys()),
      parents: Int32Array.from(ids.keys(), (i) => i - 1),
      sources,
      targets: Int32Array.from(LETTERS),
    });
    let left = random();
    const drawn = all.findIndex((logprob) => (left -= Math.exp(logprob)) <= 0);
    const letter = drawn === -1 ? LETTERS.length - 1 : drawn;
    tokenIds.push(LETTERS[letter]!);
    logprobs.push(all[letter]!);
  }
  return { tokenIds, logprobs };
}

/** Mean reward of each round of rollouts, and the gradient steps of all jobs. */
async function learn(task: string, config: TrainingConfigInput, seed: number) {
  const policy = new BigramPolicy();
  const random = seededRandom(seed);
  const rewards: number[] = [];
  let startFrom: string | null = null;
  let numSteps = 0;
  for (let index = 0; index <= NUM_JOBS; index++) {
    const groups = [];
    for (let prompt = 0; prompt < NUM_PROMPTS; prompt++) {
      const trajectories: Trajectory[] = [];
      for (let rollout = 0; rollout < NUM_ROLLOUTS; rollout++) {
        const { tokenIds, logprobs } = await sample(policy, prompt, random);
        const choice = {
          kind: 'choice',
          message: { role: 'assistant', content: String.fromCodePoint(...tokenIds) },
          tokenIds: Int32Array.from(tokenIds),
          logprobs: Float32Array.from(logprobs),
        } as const;
        const items = [message('user', `${prompt} `.repeat(1 + prompt)), choice];
        trajectories.push({ reward: TASKS[task]!(tokenIds, prompt), histories: [{ items, tools: null }] });
      }
      groups.push(group(...trajectories));
    }
    rewards.push(mean(groups.flatMap(({ trajectories }) => trajectories.map(({ reward }) => reward))));
    if (index === NUM_JOBS) break;
    const output = join(directory, `${task}-${JSON.stringify(config)}-${seed}-${index}`);
    const job = {
      jobId: `${index}`,
      groups,
      config: resolveTrainingConfig({ learningRate: 0.15, packedSequenceLength: 90, ...config }),
      lora: BIGRAM_LORA,
      startFrom,
      snapshots: join(directory, 'work'),
      output,
      seed: index,
    };
    const result = await runTrainingJob(job, {
      ...localParts({ policy }),
      template: byteTemplate,
      signal: new AbortController().signal,
      emit: () => {},
    });
    numSteps += result.numGradientSteps;
    startFrom = output;
  }
  return { rewards, numSteps };
}

it.each(Object.keys(TASKS))(
  'whole groups earn the same as rows as steps, and more than one step: %s',
  async (task) => {
    const last = new Map<string, number>();
    for (const [way, config] of Object.entries(WAYS)) {
      const runs = [];
      for (const seed of [1, 2, 3]) runs.push(await learn(task, config, seed));
      const ends = runs.map(({ rewards }) => `${rewards[0]!.toFixed(2)} → ${rewards.at(-1)!.toFixed(3)}`).join(', ');
      const overall = mean(runs.flatMap(({ rewards }) => rewards));
      const steps = mean(runs.map(({ numSteps }) => numSteps / NUM_JOBS));
      console.log(
        `${task}, ${way}: ${ends}; all rollouts ${overall.toFixed(3)}; ${steps.toFixed(1)} gradient steps a job`,
      );
      last.set(way, mean(runs.map(({ rewards }) => rewards.at(-1)!)));
    }
    expect(last.get('whole groups')).toBeGreaterThan(last.get('rows as steps')! - 0.02);
    expect(last.get('whole groups')).toBeGreaterThan(last.get('one step')!);
  },
  300_000,
);

function mean(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0) / values.length;
}
