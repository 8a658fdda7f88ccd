import { setImmediate } from 'node:timers/promises';
import { renderHistory, type ChatTemplate, type HistoryItem, type TrainingSequence } from '@trainyard/tokenizer';
import { groupAdvantages, normalizeCredit } from './advantage.ts';
import type { TrainingConfig } from './config.ts';
import { TrainerError } from './errors.ts';
import { rowLength, type CreditedSequence } from './pack.ts';
import type { History, TrajectoryGroup } from './trajectory.ts';

/**
 * Why something was not trained. Every submitted trajectory is trained or dropped for exactly one of these; a group is dropped when
 * all its trajectories are, for the reason of the first.
 */
export type DropReason =
  | 'no_trajectories'
  | 'single_trajectory'
  | 'equal_rewards'
  | 'zero_advantage'
  | 'no_trainable_tokens'
  | 'too_long'
  | 'balanced_away';

export type DropCounts = Partial<Record<DropReason, number>>;

/** What became of the submitted groups. */
export interface SequenceReport {
  readonly numGroupsSubmitted: number;
  readonly numGroupsTrainable: number;
  readonly numTrajectoriesSubmitted: number;
  readonly numTrajectoriesTrainable: number;
  /** Histories, or the parts of them that stand alone because an earlier turn was rewritten. */
  readonly numSequencesTrainable: number;
  readonly numTrainableTokens: number;
  /** Of the trainable ones, those that came without a log-probability: trained at ratio 1. */
  readonly numTokensWithoutLogprobs: number;
  /** Choices trained behind other prompt tokens than they were sampled after: the same text, cut or spelled differently. */
  readonly numDivergentPrompts: number;
  readonly droppedGroups: DropCounts;
  readonly droppedTrajectories: DropCounts;
  /** Of trajectories that have an advantage; `too_long` counts sequences. */
  readonly droppedHistories: DropCounts;
}

export interface TrainingSequences {
  readonly sequences: CreditedSequence[];
  /** Length of the rows they fit into, tokens. */
  readonly maxTokens: number;
  readonly report: SequenceReport;
}

interface Candidate {
  readonly groupIndex: number;
  readonly trajectoryIndex: number;
  readonly advantage: number;
  readonly sequences: readonly TrainingSequence[];
  /** Over all its histories, those dropped for their length included. */
  readonly numTrainedTokens: number;
}

/** Between trajectories the event loop gets a turn this often: rendering thousands must not make the process deaf. */
const TRAJECTORIES_PER_TURN = 32;

/**
 * Trajectory groups → token sequences with their credit: advantages inside each group, rendering, dropping what is too long, then
 * weights and scale over the whole job.
 *
 * @param groups Already validated.
 * @throws {TrainerError} `trainer.render_failed`, naming group, trajectory and history; what `signal` was aborted with
 */
export async function trainingSequences(
  groups: readonly TrajectoryGroup[],
  parts: { template: ChatTemplate; config: TrainingConfig; signal: AbortSignal },
): Promise<TrainingSequences> {
  const { template, config, signal } = parts;
  const drops = new DropLedger(groups);
  const candidates: Candidate[] = [];
  for (const [groupIndex, { trajectories }] of groups.entries()) {
    const scale = config.scaleRewards && config.normalizeAdvantages ? 'std' : 'none';
    const advantages = groupAdvantages(
      trajectories.map(({ reward }) => reward),
      scale,
    );
    for (const [trajectoryIndex, { histories }] of trajectories.entries()) {
      if (advantages === null) {
        drops.trajectory(groupIndex, trajectories.length === 1 ? 'single_trajectory' : 'equal_rewards');
        continue;
      }
      const advantage = advantages[trajectoryIndex]!;
      if (advantage === 0) {
        drops.trajectory(groupIndex, 'zero_advantage');
        continue;
      }
      if (trajectoryIndex % TRAJECTORIES_PER_TURN === 0) await setImmediate();
      signal.throwIfAborted();
      const rendered = histories.map((history, historyIndex) =>
        render(
          template,
          history,
          config,
          `group ${groupIndex}, trajectory ${trajectoryIndex}, history ${historyIndex}`,
        ),
      );
      drops.histories('no_trainable_tokens', rendered.filter((sequences) => sequences.length === 0).length);
      const sequences = rendered.flat();
      if (sequences.length === 0) drops.trajectory(groupIndex, 'no_trainable_tokens');
      else
        candidates.push({
          groupIndex,
          trajectoryIndex,
          advantage,
          sequences,
          numTrainedTokens: sum(sequences.map(numTrained)),
        });
    }
  }
  const longest = candidates
    .flatMap(({ sequences }) => sequences)
    .reduce((max, { tokenIds }) => Math.max(max, tokenIds.length), 0);
  const maxTokens = rowLength(longest, config);
  const kept = dropTooLong(candidates, maxTokens, drops);
  const sequences = credited(kept, config.advantageBalance);
  if (sequences === null) for (const { groupIndex } of kept) drops.trajectory(groupIndex, 'balanced_away');
  const numDivergentPrompts = sum(
    kept.flatMap((candidate) => candidate.sequences.map((sequence) => sequence.numDivergentPrompts)),
  );
  return { sequences: sequences ?? [], maxTokens, report: drops.report(sequences ?? [], numDivergentPrompts) };
}

function dropTooLong(candidates: readonly Candidate[], maxTokens: number, drops: DropLedger): Candidate[] {
  const kept: Candidate[] = [];
  for (const candidate of candidates) {
    const sequences = candidate.sequences.filter(({ tokenIds }) => tokenIds.length <= maxTokens);
    drops.histories('too_long', candidate.sequences.length - sequences.length);
    if (sequences.length === 0) drops.trajectory(candidate.groupIndex, 'too_long');
    else kept.push({ ...candidate, sequences });
  }
  return kept;
}

/** Null when no advantage is left. */
function credited(candidates: readonly Candidate[], balance: number): CreditedSequence[] | null {
  const flat = candidates.flatMap((candidate) => candidate.sequences.map((sequence) => ({ candidate, sequence })));
  const credit = normalizeCredit(
    flat.map(({ candidate, sequence }) => ({
      advantage: candidate.advantage,
      numTokens: numTrained(sequence),
      numTrajectoryTokens: candidate.numTrainedTokens,
    })),
    balance,
  );
  if (credit === null) return null;
  return flat.map(({ candidate: { groupIndex, trajectoryIndex }, sequence }, i) => ({
    ...sequence,
    ...credit[i]!,
    groupIndex,
    trajectoryIndex,
  }));
}

function render(template: ChatTemplate, history: History, config: TrainingConfig, where: string): TrainingSequence[] {
  const items = config.allowTrainingWithoutLogprobs
    ? history.items.map((item) => asChoice(template, item))
    : history.items;
  try {
    return renderHistory(template, items, { tools: history.tools }).flatMap(withTrainedEnd);
  } catch (cause) {
    throw new TrainerError('trainer.render_failed', `${where}: ${(cause as Error).message}`, { cause });
  }
}

/** Cut behind its last trained token; the first token, which nothing predicts, is none. Empty when no token is trained. */
export function withTrainedEnd(sequence: TrainingSequence): TrainingSequence[] {
  const lossMask = sequence.lossMask.slice();
  lossMask[0] = 0;
  const length = lossMask.lastIndexOf(1) + 1;
  if (length === 0) return [];
  return [
    {
      ...sequence,
      tokenIds: sequence.tokenIds.subarray(0, length),
      lossMask: lossMask.subarray(0, length),
      oldLogprobs: sequence.oldLogprobs.subarray(0, length),
    },
  ];
}

/** Assistant text that was not sampled here, as a choice without log-probabilities: its tokens are trained at ratio 1, its end is not. */
function asChoice(template: ChatTemplate, item: HistoryItem): HistoryItem {
  if (item.kind === 'choice' || item.message.role !== 'assistant' || typeof item.message.content !== 'string')
    return item;
  const tokenIds = template.tokenizer.encode(item.message.content);
  if (tokenIds.length === 0) return item;
  return { kind: 'choice', message: item.message, tokenIds, logprobs: new Float32Array(tokenIds.length).fill(NaN) };
}

const numTrained = ({ lossMask }: Pick<TrainingSequence, 'lossMask'>): number =>
  lossMask.reduce((total, flag) => total + flag, 0);

const numWithoutLogprobs = ({ lossMask, oldLogprobs }: Pick<TrainingSequence, 'lossMask' | 'oldLogprobs'>): number =>
  lossMask.reduce((total, flag, i) => total + (flag === 1 && Number.isNaN(oldLogprobs[i]) ? 1 : 0), 0);

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Counts what is dropped, so that nothing vanishes silently. */
class DropLedger {
  readonly #groups: readonly TrajectoryGroup[];
  readonly #firstReasons = new Map<number, DropReason>();
  readonly #trajectories: DropCounts = {};
  readonly #histories: DropCounts = {};

  constructor(groups: readonly TrajectoryGroup[]) {
    this.#groups = groups;
  }

  trajectory(groupIndex: number, reason: DropReason): void {
    if (!this.#firstReasons.has(groupIndex)) this.#firstReasons.set(groupIndex, reason);
    this.#trajectories[reason] = (this.#trajectories[reason] ?? 0) + 1;
  }

  histories(reason: DropReason, count: number): void {
    if (count > 0) this.#histories[reason] = (this.#histories[reason] ?? 0) + count;
  }

  report(sequences: readonly CreditedSequence[], numDivergentPrompts: number): SequenceReport {
    const trainedGroups = new Set(sequences.map(({ groupIndex }) => groupIndex));
    const droppedGroups: DropCounts = {};
    this.#groups.forEach(({ trajectories }, groupIndex) => {
      if (trainedGroups.has(groupIndex)) return;
      const reason = trajectories.length === 0 ? 'no_trajectories' : this.#firstReasons.get(groupIndex)!;
      droppedGroups[reason] = (droppedGroups[reason] ?? 0) + 1;
    });
    return {
      numGroupsSubmitted: this.#groups.length,
      numGroupsTrainable: trainedGroups.size,
      numTrajectoriesSubmitted: sum(this.#groups.map(({ trajectories }) => trajectories.length)),
      numTrajectoriesTrainable: new Set(
        sequences.map(({ groupIndex, trajectoryIndex }) => `${groupIndex} ${trajectoryIndex}`),
      ).size,
      numSequencesTrainable: sequences.length,
      numTrainableTokens: sum(sequences.map(numTrained)),
      numTokensWithoutLogprobs: sum(sequences.map(numWithoutLogprobs)),
      numDivergentPrompts,
      droppedGroups,
      droppedTrajectories: this.#trajectories,
      droppedHistories: this.#histories,
    };
  }
}
