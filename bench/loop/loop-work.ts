/** A step of reinforcement learning: rollouts, gradient steps on them, and new weights for the sampler. */
export interface LoopWork {
  readonly numPrompts: number;
  /** Rollouts per prompt. */
  readonly groupSize: number;
  /** Length of a prompt's text in sentences, about 18 tokens each. */
  readonly promptSentences: number;
  /** Length of every rollout: none ends early. */
  readonly numTokens: number;
  readonly gradientSteps: number;
  readonly learningRate: number;
}

/** 64 rollouts of about 376 prompt tokens and 64 more. */
export const FULL: LoopWork = {
  numPrompts: 8,
  groupSize: 8,
  promptSentences: 18,
  numTokens: 64,
  gradientSteps: 4,
  learningRate: 1e-5,
};
/** Smallest work that runs every line; its times mean nothing. */
export const SHORT: LoopWork = {
  ...FULL,
  numPrompts: 2,
  groupSize: 2,
  promptSentences: 2,
  numTokens: 8,
  gradientSteps: 2,
};

/** Times of one step, seconds, and its counts. */
export interface LoopStep {
  readonly total: number;
  readonly sampling: number;
  readonly training: number;
  /** From the last gradient step until the sampler has the new weights. */
  readonly publishing: number;
  /** The rest: queues, events and idle time. */
  readonly waiting: number;
  readonly sampledTokens: number;
  /** A group's prompt is counted once. */
  readonly promptTokens: number;
  readonly trainedTokens: number;
  readonly gradientSteps: number;
  /** Mean |Δ log-probability| of sampler and trainer before the first gradient step, nats; null if it is not reported. */
  readonly meanGap: number | null;
}

/** A complete loop: a sampler and a trainer. */
export interface Loop {
  readonly settings: string;
  /** @param index of the step; each has its own prompts */
  readonly step: (index: number) => Promise<LoopStep>;
  readonly close: () => Promise<void>;
}

export interface LoopKind {
  readonly name: string;
  /** Fetches missing parts. @throws {Error} naming a missing part */
  readonly install: () => Promise<void>;
  readonly open: (work: LoopWork) => Promise<Loop>;
}

const SENTENCE = 'The harbour keeps a log of ships, tides, cargo and weather, written by hand every evening. ';

/** Texts of the prompts of one step. */
export function promptsOf(work: LoopWork, index: number): string[] {
  return Array.from(
    { length: work.numPrompts },
    (_, prompt) => `Log ${index}-${prompt}. ${SENTENCE.repeat(work.promptSentences)}Write the next entry.`,
  );
}

/** Reward of a rollout by its place in the group: equal rewards would leave nothing to train. */
export function rewardOf(indexInGroup: number): number {
  return indexInGroup % 2;
}

/** Seconds that no part accounts for. @throws {Error} if the parts take longer than the whole */
export function waitingOf(total: number, parts: readonly number[]): number {
  const waiting = total - parts.reduce((sum, part) => sum + part, 0);
  if (waiting < -0.01 * total)
    throw new Error(`the parts of a step take ${(total - waiting).toFixed(2)} of ${total.toFixed(2)} s`);
  return Math.max(0, waiting);
}

/** @throws {Error} if a step was other work than asked for, so that its time could not be compared */
export function requireWork(work: LoopWork, step: LoopStep): LoopStep {
  const tokens = work.numPrompts * work.groupSize * work.numTokens;
  if (step.sampledTokens !== tokens) throw new Error(`${tokens} tokens were to be sampled, got ${step.sampledTokens}`);
  if (step.trainedTokens !== tokens) throw new Error(`${tokens} tokens were to be trained, got ${step.trainedTokens}`);
  if (step.gradientSteps !== work.gradientSteps)
    throw new Error(`${work.gradientSteps} gradient steps were to be made, got ${step.gradientSteps}`);
  return step;
}
