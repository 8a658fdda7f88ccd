import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

import type { WireTrajectoryGroup } from '@trainyard/protocol';
import { ConflictError, type Trainyard } from '@trainyard/sdk';
import { gatherGroup } from '@trainyard/sdk/rollouts';

/** Sizes of sampling and training. */
export interface LoadSizes {
  /** Length of a streamed reply, tokens; the next reply follows at once. */
  readonly replyTokens: number;
  readonly promptWords: number;
  /** Trajectories per gradient step, and tokens of each. */
  readonly groupSize: number;
  readonly trainedTokens: number;
}

export const FULL: LoadSizes = { replyTokens: 128, promptWords: 200, groupSize: 4, trainedTokens: 48 };
/** Smallest sizes that run every line; the results mean nothing. */
export const SHORT: LoadSizes = { replyTokens: 16, promptWords: 10, groupSize: 2, trainedTokens: 8 };

/** Gradient steps of a job: the maximum, which is never reached before it is cancelled. */
const JOB_STEPS = 256;
const POLL_MS = 50;

/**
 * Milliseconds between consecutive tokens of a stream, until `signal` aborts; streams follow each other
 * without a pause.
 */
export async function streamChats(
  client: Trainyard,
  model: string,
  options: { numStreams: number; seed: number; sizes: LoadSizes; signal: AbortSignal },
): Promise<number[]> {
  const { numStreams, seed, sizes, signal } = options;
  const gapsMs: number[] = [];
  const stream = async (index: number): Promise<void> => {
    for (let turn = 0; !signal.aborted; turn++) {
      let lastAt: number | null = null;
      const chunks = await client.chat.completions.create(
        {
          model,
          messages: [
            { role: 'user', content: `Ship ${seed}-${index}-${turn}: tell me about those who crossed the sea.` },
          ],
          seed: seed * 1000 + index * 100 + turn,
          max_tokens: sizes.replyTokens,
          ignore_eos: true,
          return_token_ids: true,
          stream: true,
        },
        { signal },
      );
      for await (const { choices } of chunks) {
        if ((choices[0]?.token_ids?.length ?? 0) === 0) continue;
        const now = performance.now();
        if (lastAt !== null) gapsMs.push(now - lastAt);
        lastAt = now;
      }
    }
  };
  await Promise.all(
    Array.from({ length: numStreams }, (_, index) =>
      stream(index).catch((error: unknown) => {
        if (!signal.aborted) throw error;
      }),
    ),
  );
  return gapsMs;
}

/** A model to train, and its training data. */
export interface TrainedModel {
  readonly id: string;
  readonly group: WireTrajectoryGroup;
}

export async function registerTrained(client: Trainyard, baseModel: string, sizes: LoadSizes): Promise<TrainedModel> {
  const name = `bench-${randomUUID().slice(0, 8)}`;
  const { id, entity, project } = await client.models.register({ project: 'bench', name, base_model: baseModel });
  const { group } = await gatherGroup(
    client,
    {
      model: `${entity}/${project}/${name}`,
      messages: [{ role: 'user', content: `Go on: ${'ship '.repeat(sizes.promptWords)}` }],
      n: sizes.groupSize,
      seed: 1,
      max_tokens: sizes.trainedTokens,
      ignore_eos: true,
    },
    (choice) => choice.index,
  );
  return { id, group };
}

/** A job that takes gradient steps until it is stopped. */
export interface RunningJob {
  /**
   * Sequence tokens per second of the steps completed since the last call, including their wait for the
   * cores.
   */
  takeSpeed(): Promise<number>;
  /** Resolves after `numSteps` steps since the last call of `takeSpeed`. */
  reached(numSteps: number): Promise<void>;
  stop(): Promise<void>;
}

/** Resolves after the job's first step: weights are loaded, threads have started. */
export async function startJob(client: Trainyard, { id, group }: TrainedModel): Promise<RunningJob> {
  const groups = Array.from({ length: JOB_STEPS }, () => group);
  const { id: jobId } = await client.trainingJobs.create({
    model_id: id,
    trajectory_groups: groups,
    experimental_config: { gradient_steps: JOB_STEPS, learning_rate: 1e-6, train_copies: true },
  });
  let after: string | null = null;
  let steps: { tokens: number; seconds: number }[] = [];
  const look = async (): Promise<void> => {
    const page = await client.trainingJobs.events(jobId, { limit: 100, ...(after === null ? {} : { after }) });
    for (const event of page.data) {
      after = event.id;
      if (event.type === 'training_failed') throw new Error(`the job failed: ${JSON.stringify(event.data)}`);
      if (event.type === 'training_ended') throw new Error('the job ended before it was measured');
      if (event.type !== 'gradient_step') continue;
      const { num_sequence_tokens: tokens, tokens_per_second: rate } = event.data as Record<string, number>;
      steps.push({ tokens: tokens!, seconds: tokens! / rate! });
    }
  };
  const reached = async (numSteps: number): Promise<void> => {
    while (steps.length < numSteps) {
      await delay(POLL_MS);
      await look();
    }
  };
  await reached(1);
  steps = [];
  return {
    reached,
    takeSpeed: async () => {
      await look();
      const taken = steps;
      steps = [];
      const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
      return sum(taken.map(({ tokens }) => tokens)) / sum(taken.map(({ seconds }) => seconds));
    },
    stop: async () => {
      await client.trainingJobs.cancel(jobId).catch((error: unknown) => {
        // It has ended in the meantime.
        if (!(error instanceof ConflictError)) throw error;
      });
      // It computes until the end of a layer; the next measurement must not overlap with that.
      for await (const _event of client.trainingJobs.watch(jobId));
    },
  };
}
