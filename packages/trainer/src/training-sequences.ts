import { setImmediate } from 'node:timers/promises';
import { renderHistory, type ChatTemplate, type HistoryItem, type TrainingSequence } from '@trainyard/tokenizer';
import { groupAdvantages, normalizeCredit } from './advantage.ts';
import type { TrainingConfig } from './config.ts';
import { driftOf, isTurnWithoutLogprobs } from './drift.ts';
import { TrainerError } from './errors.ts';
import { rowLength, type CreditedSequence } from './pack.ts';
import { DropLedger, type DriftCounts, type SequenceReport } from './sequence-report.ts';
import type { History, TrajectoryGroup } from './trajectory.ts';

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
  readonly drift: readonly Omit<DriftCounts, 'numDivergentPrompts'>[];
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
  const drops = new DropLedger();
  const candidates: Candidate[] = [];
  for (const [groupIndex, { trajectories }] of groups.entries()) {
    const scale = config.scaleRewards && config.normalizeAdvantages ? 'std' : 'none';
    const advantages = groupAdvantages(
      trajectories.map(({ reward }) => reward),
      scale,
    );
    for (const [trajectoryIndex, { histories }] of trajectories.entries()) {
      if (advantages === null) {
        drops.dropTrajectory(groupIndex, trajectories.length === 1 ? 'single_trajectory' : 'equal_rewards');
        continue;
      }
      const advantage = advantages[trajectoryIndex]!;
      if (advantage === 0) {
        drops.dropTrajectory(groupIndex, 'zero_advantage');
        continue;
      }
      if (trajectoryIndex % TRAJECTORIES_PER_TURN === 0) await setImmediate();
      signal.throwIfAborted();
      const where = `group ${groupIndex}, trajectory ${trajectoryIndex}`;
      const rendered = histories.map((history, historyIndex) =>
        render(template, history, config, `${where}, history ${historyIndex}`),
      );
      const reasons = histories.map(({ items }, i) => (rendered[i]!.sequences.length > 0 ? null : untrainable(items)));
      for (const reason of reasons) if (reason !== null) drops.dropHistory(reason);
      const trainable = rendered.filter(({ sequences }) => sequences.length > 0);
      const sequences = trainable.flatMap((history) => history.sequences);
      if (sequences.length === 0) {
        const isMissing = reasons.includes('missing_logprobs');
        drops.dropTrajectory(groupIndex, isMissing ? 'missing_logprobs' : 'no_trainable_tokens');
        continue;
      }
      candidates.push({
        groupIndex,
        trajectoryIndex,
        advantage,
        sequences,
        drift: trainable.map(({ drift }) => drift),
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
  if (sequences === null) for (const { groupIndex } of kept) drops.dropTrajectory(groupIndex, 'balanced_away');
  const report = reportOf(groups, sequences === null ? [] : kept, sequences ?? [], drops);
  return { sequences: sequences ?? [], maxTokens, report };
}

/** Why a history has nothing to train. */
function untrainable(items: History['items']): 'missing_logprobs' | 'no_trainable_tokens' {
  return items.some(isTurnWithoutLogprobs) ? 'missing_logprobs' : 'no_trainable_tokens';
}

function dropTooLong(candidates: readonly Candidate[], maxTokens: number, drops: DropLedger): Candidate[] {
  const kept: Candidate[] = [];
  for (const candidate of candidates) {
    const sequences = candidate.sequences.filter(({ tokenIds }) => tokenIds.length <= maxTokens);
    for (let i = sequences.length; i < candidate.sequences.length; i++) drops.dropHistory('too_long');
    if (sequences.length === 0) drops.dropTrajectory(candidate.groupIndex, 'too_long');
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

function render(
  template: ChatTemplate,
  history: History,
  config: TrainingConfig,
  where: string,
): { sequences: TrainingSequence[]; drift: Omit<DriftCounts, 'numDivergentPrompts'> } {
  const items = config.allowTrainingWithoutLogprobs
    ? history.items.map((item) => asChoice(template, item))
    : history.items;
  try {
    const sequences = renderHistory(template, items, { tools: history.tools }).flatMap(withTrainedEnd);
    return { sequences, drift: driftOf(template, history, items) };
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

function reportOf(
  groups: readonly TrajectoryGroup[],
  trained: readonly Candidate[],
  sequences: readonly CreditedSequence[],
  drops: DropLedger,
): SequenceReport {
  const trajectories = groups.flatMap((group) => group.trajectories);
  const items = trajectories.flatMap(({ histories }) => histories.flatMap((history) => history.items));
  const drift = trained.flatMap((candidate) => candidate.drift);
  const trainedGroups = new Set(trained.map(({ groupIndex }) => groupIndex));
  return {
    numGroupsSubmitted: groups.length,
    numGroupsTrainable: trainedGroups.size,
    numTrajectoriesSubmitted: trajectories.length,
    numTrajectoriesTrainable: trained.length,
    numSequencesTrainable: sequences.length,
    numTrainableTokens: sum(sequences.map(numTrained)),
    numTokensWithoutLogprobs: sum(sequences.map(numWithoutLogprobs)),
    numTurnsWithoutLogprobs: items.filter(isTurnWithoutLogprobs).length,
    numDivergentPrompts: sum(trained.flatMap((one) => one.sequences.map((sequence) => sequence.numDivergentPrompts))),
    numTruncatedChoices: sum(drift.map((one) => one.numTruncatedChoices)),
    numRetokenizedTurns: sum(drift.map((one) => one.numRetokenizedTurns)),
    numChoicesWithOtherText: sum(drift.map((one) => one.numChoicesWithOtherText)),
    ...drops.outcomes(groups, trainedGroups),
    droppedTrajectories: drops.trajectories,
    droppedHistories: drops.histories,
  };
}
