import type { WireTrajectory, WireTrajectoryGroup } from '../index.ts';

type Scalars = Record<string, number | string | boolean | null>;

/** Planned rollouts of one scenario. */
export interface GroupPlan {
  readonly numRollouts: number;
  /** @param index of the rollout in its group */
  play(index: number, signal: AbortSignal): Promise<WireTrajectory>;
  readonly metadata?: Scalars | undefined;
}

export interface GatherProgress {
  readonly numRollouts: number;
  readonly numDone: number;
  /** Rollouts that failed permanently. */
  readonly numFailed: number;
  /** Mean reward of finished rollouts; null before the first. */
  readonly meanReward: number | null;
}

export interface GatherOptions {
  /** Concurrent rollouts; default 16. */
  readonly concurrency?: number | undefined;
  /** Called after every rollout. */
  readonly onProgress?: ((progress: GatherProgress) => void) | undefined;
  /** Repeats of a failed rollout; default 0. */
  readonly retries?: number | undefined;
  /**
   * True turns a permanently failed rollout into an exception of its group, which is counted and not trained,
   * instead of ending the whole run. Default false.
   */
  readonly dropOnError?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

const CONCURRENCY = 16;

/** Plans `numRollouts` rollouts of one scenario. `gather` plays them. */
export function group(
  numRollouts: number,
  play: (index: number, signal: AbortSignal) => Promise<WireTrajectory>,
  options: { metadata?: Scalars } = {},
): GroupPlan {
  return { numRollouts, play, metadata: options.metadata };
}

/**
 * Plays the rollouts of groups concurrently, group after group.
 *
 * @returns the groups and their trajectories in order
 * @throws the first error after the retries, unless `dropOnError`; running rollouts then see their signal
 *   abort. If `signal` is aborted, its reason, with any error of a rollout
 */
export async function gather(plans: Iterable<GroupPlan>, options: GatherOptions = {}): Promise<WireTrajectoryGroup[]> {
  const { concurrency = CONCURRENCY, onProgress, retries = 0, dropOnError = false } = options;
  const groups = [...plans];
  const turns = groups.flatMap((plan, groupIndex) =>
    Array.from({ length: plan.numRollouts }, (_, index) => ({ plan, groupIndex, index })),
  );
  const ended = new AbortController();
  const stop = () => ended.abort(options.signal?.reason);
  if (options.signal?.aborted) stop();
  options.signal?.addEventListener('abort', stop, { once: true });
  const played = groups.map(({ numRollouts }) =>
    Array<WireTrajectory | Error | undefined>(numRollouts).fill(undefined),
  );
  const rewards: number[] = [];
  let numFailed = 0;
  let next = 0;
  const work = async () => {
    while (next < turns.length) {
      ended.signal.throwIfAborted();
      const { plan, groupIndex, index } = turns[next++]!;
      try {
        const trajectory = await playAgain(plan, index, retries, ended.signal);
        played[groupIndex]![index] = trajectory;
        rewards.push(Number(trajectory.reward));
      } catch (error) {
        if (!dropOnError || ended.signal.aborted) throw error;
        numFailed += 1;
        played[groupIndex]![index] = error instanceof Error ? error : new Error(String(error));
      }
      const meanReward =
        rewards.length === 0 ? null : rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
      onProgress?.({ numRollouts: turns.length, numDone: rewards.length, numFailed, meanReward });
    }
  };
  try {
    await Promise.all(Array.from({ length: Math.max(1, Math.min(concurrency, turns.length)) }, work));
  } catch (error) {
    ended.abort(error);
    options.signal?.throwIfAborted();
    throw error;
  } finally {
    options.signal?.removeEventListener('abort', stop);
  }
  return groups.map(({ metadata = {} }, index) => {
    const outcomes = played[index]!;
    return {
      trajectories: outcomes.filter((outcome): outcome is WireTrajectory => !(outcome instanceof Error)),
      exceptions: outcomes.flatMap((outcome) =>
        outcome instanceof Error ? [{ type: outcome.name, message: outcome.message }] : [],
      ),
      metadata,
    };
  });
}

async function playAgain(
  plan: GroupPlan,
  index: number,
  retries: number,
  signal: AbortSignal,
): Promise<WireTrajectory> {
  for (let numRetries = 0; ; numRetries++) {
    try {
      return await plan.play(index, signal);
    } catch (error) {
      if (numRetries >= retries || signal.aborted) throw error;
    }
  }
}

/** Mean reward over all trajectories; NaN without one. */
export function meanReward(groups: readonly WireTrajectoryGroup[]): number {
  const rewards = groups.flatMap(({ trajectories }) => trajectories.map(({ reward }) => Number(reward)));
  return rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
}
