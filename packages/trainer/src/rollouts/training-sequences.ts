import { setImmediate } from 'node:timers/promises';
import { historyTurns, type ChatTemplate, type HistoryItem, type TrainingSequence } from '@trainyard/tokenizer';
import { balanced, groupAdvantages, normalizeCredit, trajectoryWeights, type CreditInput } from './advantage.ts';
import { drawAt, ReplayLedger, type PlacedReplay, type ReplayOptions } from '../packing/choice-replay.ts';
import { hasRegularizer, type TrainingConfig } from '../config/training-config.ts';
import { findCopies, type CopyReport, type PlacedChoice } from './choice-copies.ts';
import { driftOf, isTurnWithoutLogprobs, numRetokenizedTurns } from './drift.ts';
import { TrainerError } from '../contract/errors.ts';
import { rowLength } from '../packing/pack.ts';
import { DropLedger, type DropReason, type SequenceReport, type TrajectoryOutcome } from './sequence-report.ts';
import type { GroupSize, StepSequence } from './training-steps.ts';
import { inTurns } from './in-turns.ts';
import type { History, TrajectoryGroup } from './trajectory.ts';

export interface TrainingSequences {
  readonly sequences: StepSequence[];
  /** Keys are group indices. */
  readonly groupSizes: ReadonlyMap<number, GroupSize>;
  /** Row length. */
  readonly maxTokens: number;
  readonly report: SequenceReport;
}

type ReplayedSequence = TrainingSequence & { readonly replays?: readonly PlacedReplay[] };

/** `sent`: the choices that the client sent as choices. */
interface Rendered {
  readonly sequences: readonly ReplayedSequence[];
  readonly numRetokenizedTurns: number;
  readonly sent: ReadonlySet<HistoryItem>;
}

interface CandidateSequence extends ReplayedSequence {
  readonly advantage: number;
  readonly sequenceIndex: number;
  /** Sent choices of the history. */
  readonly sent: ReadonlySet<HistoryItem>;
}

interface Candidate {
  readonly groupIndex: number;
  readonly trajectoryIndex: number;
  readonly advantage: number;
  /** False: only counted. */
  readonly isTrained: boolean;
  readonly sequences: readonly CandidateSequence[];
  readonly numRetokenizedTurns: number;
  /** Count over all its histories, including those dropped for their length. */
  readonly numTrainedTokens: number;
}

/** Rendering thousands in one turn of the event loop would block the process. */
const TRAJECTORIES_PER_TURN = 32;

/**
 * Converts trajectory groups to token sequences with their credit: advantages within each group, rendering,
 * drops of long ones, then weights and scale over the whole job. Trajectories without an advantage are dropped,
 * unless the loss has terms other than the rewards.
 *
 * @param groups already validated
 * @param parts.canReplay default true
 * @param parts.hasPolicy see `ReplayOptions`
 * @throws {TrainerError} `trainer.render_failed` with group, trajectory and history; the abort reason of
 * `signal`
 */
export async function trainingSequences(
  groups: readonly TrajectoryGroup[],
  parts: { template: ChatTemplate; config: TrainingConfig; signal: AbortSignal } & Pick<
    ReplayOptions,
    'canReplay' | 'hasPolicy'
  >,
): Promise<TrainingSequences> {
  const { template, config, signal } = parts;
  const drops = new DropLedger();
  const replays = new ReplayLedger({ ...parts, allowsUnknown: config.allowTrainingWithUnknownSampling });
  const candidates: Candidate[] = [];
  const advantagesOf: (readonly number[] | null)[] = [];
  const isRegularized = hasRegularizer(config);
  for (const [groupIndex, { trajectories }] of groups.entries()) {
    const scale = config.scaleRewards && config.normalizeAdvantages ? 'std' : 'none';
    const advantages = groupAdvantages(
      trajectories.map(({ reward }) => reward),
      scale,
    );
    advantagesOf.push(advantages);
    for (const [trajectoryIndex, { histories }] of trajectories.entries()) {
      const advantage = advantages?.[trajectoryIndex] ?? 0;
      if (advantage === 0 && !isRegularized) {
        drops.dropTrajectory({ groupIndex, trajectoryIndex }, reasonOfNoAdvantage(advantages, trajectories.length));
        // Aggregation of a group's loss may depend on everything sampled for it.
        if (advantages === null || config.lossAggregation === 'normalized_trajectory') continue;
      }
      if (trajectoryIndex % TRAJECTORIES_PER_TURN === 0) await setImmediate();
      signal.throwIfAborted();
      const where = `group ${groupIndex}, trajectory ${trajectoryIndex}`;
      const rendered: Rendered[] = [];
      for (const [historyIndex, history] of histories.entries())
        rendered.push(
          await render(history, `${where}, history ${historyIndex}`, { template, config, replays, signal }),
        );
      const isTrained = advantage !== 0 || isRegularized;
      const reasons = histories.map(({ items }, i) => (rendered[i]!.sequences.length > 0 ? null : untrainable(items)));
      if (isTrained) for (const reason of reasons) if (reason !== null) drops.dropHistory(reason);
      const trainable = rendered.filter(({ sequences }) => sequences.length > 0);
      const sequences = trainable
        .flatMap((history) => history.sequences.map((sequence) => ({ ...sequence, advantage, sent: history.sent })))
        .map((sequence, sequenceIndex) => ({ ...sequence, sequenceIndex }));
      if (sequences.length === 0) {
        const isMissing = reasons.includes('missing_logprobs');
        const reason = isMissing ? 'missing_logprobs' : 'no_trainable_tokens';
        if (isTrained) drops.dropTrajectory({ groupIndex, trajectoryIndex }, reason);
        continue;
      }
      candidates.push({
        groupIndex,
        trajectoryIndex,
        advantage,
        isTrained,
        sequences,
        numRetokenizedTurns: sum(trainable.map((history) => history.numRetokenizedTurns)),
        numTrainedTokens: sum(sequences.map(numTrained)),
      });
    }
  }
  const longest = candidates
    .filter(({ isTrained }) => isTrained)
    .flatMap(({ sequences }) => sequences)
    .reduce((max, { tokenIds }) => Math.max(max, tokenIds.length), 0);
  const maxTokens = rowLength(longest, config);
  const fitting = dropTooLong(candidates, maxTokens, drops);
  const { candidates: sampled, copies } = config.trainCopies
    ? { candidates: fitting, copies: findCopies(fitting, replays.sentLogprobs).report }
    : dropCopies(fitting, replays, drops);
  const kept = sampled.filter(({ isTrained }) => isTrained);
  const sequences = credited(kept, config);
  const reason = config.advantageBalance === 0 ? 'zero_advantage' : 'balanced_away';
  if (sequences === null) for (const candidate of kept) drops.dropTrajectory(candidate, reason);
  const report = {
    ...reportOf(template, groups, { trained: sequences === null ? [] : kept, sequences: sequences ?? [], drops }),
    numCopiedChoices: copies.numChoices,
    numCopiedTokens: copies.numTokens,
    trajectoryOutcomes: groups.map(({ trajectories }, groupIndex) =>
      trajectories.map((_, trajectoryIndex): TrajectoryOutcome => {
        const advantage = advantagesOf[groupIndex]?.[trajectoryIndex] ?? null;
        const reason = drops.reasonOf({ groupIndex, trajectoryIndex });
        return { outcome: reason ?? (advantage ? 'trained' : 'regularized'), advantage };
      }),
    ),
    sampling: replays.report(),
  };
  return { sequences: sequences ?? [], groupSizes: groupSizes(sampled), maxTokens, report };
}

function reasonOfNoAdvantage(advantages: readonly number[] | null, numTrajectories: number): DropReason {
  if (advantages !== null) return 'zero_advantage';
  return numTrajectories === 1 ? 'single_trajectory' : 'equal_rewards';
}

function groupSizes(sampled: readonly Candidate[]): Map<number, GroupSize> {
  const byGroup = Map.groupBy(sampled, ({ groupIndex }) => groupIndex);
  return new Map(
    Array.from(byGroup, ([groupIndex, members]) => {
      const numTokens = sum(members.flatMap(({ sequences }) => sequences.map(numTrained)));
      return [groupIndex, { numTrajectories: members.length, numTokens }];
    }),
  );
}

/** The history has nothing to train. */
function untrainable(items: History['items']): 'missing_logprobs' | 'no_trainable_tokens' {
  return items.some(isTurnWithoutLogprobs) ? 'missing_logprobs' : 'no_trainable_tokens';
}

function dropTooLong(candidates: readonly Candidate[], maxTokens: number, drops: DropLedger): Candidate[] {
  const kept: Candidate[] = [];
  for (const candidate of candidates) {
    const sequences = candidate.sequences.filter(({ tokenIds }) => tokenIds.length <= maxTokens);
    if (candidate.isTrained) {
      for (let i = sequences.length; i < candidate.sequences.length; i++) drops.dropHistory('too_long');
      if (sequences.length === 0) drops.dropTrajectory(candidate, 'too_long');
    }
    if (sequences.length > 0) kept.push({ ...candidate, sequences });
  }
  return kept;
}

/**
 * Trains each sampled token once. A sample shared by trajectories with different rewards is trained with the
 * mean of their advantages, in a separate sequence.
 */
function dropCopies(
  candidates: readonly Candidate[],
  replays: ReplayLedger,
  drops: DropLedger,
): { candidates: Candidate[]; copies: CopyReport } {
  const { choices, report } = findCopies(candidates, replays.sentLogprobs);
  if (report.numChoices === 0) return { candidates: [...candidates], copies: report };
  const kept = candidates.flatMap((candidate, index): Candidate[] => {
    const sequences = candidate.sequences.flatMap((sequence, place) => {
      const own = choices[index]![place]!.filter(({ isCopy }) => !isCopy);
      if (own.length === 0 && candidate.isTrained) drops.dropHistory('copied');
      return [...Map.groupBy(own, ({ advantage }) => advantage)].flatMap(([advantage, members]) =>
        withTrainedEnd(onlyChoices(sequence, members)).map((part) => ({ ...sequence, ...part, advantage })),
      );
    });
    if (sequences.length === 0) {
      if (candidate.isTrained) drops.dropTrajectory(candidate, 'copied');
      return [];
    }
    // Tokens dropped for their length still count.
    const numLeftOut = sum(candidate.sequences.map(numTrained)) - sum(sequences.map(numTrained));
    return [{ ...candidate, sequences, numTrainedTokens: candidate.numTrainedTokens - numLeftOut }];
  });
  return { candidates: kept, copies: report };
}

/** Null if no advantage is left and the loss has only the rewards. */
function credited(candidates: readonly Candidate[], config: TrainingConfig): StepSequence[] | null {
  const flat = candidates.flatMap((candidate) => candidate.sequences.map((sequence) => ({ candidate, sequence })));
  const inputs = flat.map(({ candidate, sequence }) => ({
    advantage: sequence.advantage,
    numTokens: numTrained(sequence),
    numTrajectoryTokens: candidate.numTrainedTokens,
  }));
  const advantages = scaledAdvantages(inputs, config);
  if (advantages === null) return null;
  const weights = trajectoryWeights(inputs);
  return flat.map(({ candidate: { groupIndex, trajectoryIndex, advantage }, sequence }, i) => ({
    ...sequence,
    advantage: advantages[i]!,
    // Decided before `advantageBalance`. A shared sample may have the advantage of another trajectory.
    isRewarded: advantage !== 0 || sequence.advantage !== 0,
    weight: weights![i]!,
    numTokens: inputs[i]!.numTokens,
    numTrajectoryTokens: inputs[i]!.numTrajectoryTokens,
    groupIndex,
    trajectoryIndex,
  }));
}

/** Null if all are 0 and the loss has only the rewards. */
function scaledAdvantages(inputs: readonly CreditInput[], config: TrainingConfig): number[] | null {
  const { advantageBalance, lossAggregation } = config;
  const scaled =
    lossAggregation === 'normalized_trajectory'
      ? normalizeCredit(inputs, advantageBalance)?.map(({ advantage }) => advantage)
      : inputs.map(({ advantage }) => balanced(advantage, advantageBalance));
  if (scaled !== undefined && scaled.some((advantage) => advantage !== 0)) return scaled;
  return hasRegularizer(config) && inputs.length > 0 ? inputs.map(() => 0) : null;
}

async function render(
  history: History,
  where: string,
  parts: { template: ChatTemplate; config: TrainingConfig; replays: ReplayLedger; signal: AbortSignal },
): Promise<Rendered> {
  const { template, config, replays, signal } = parts;
  const prepared = history.items.map((item) => replays.prepare(item));
  const items = config.allowTrainingWithoutLogprobs ? prepared.map((item) => asChoice(template, item)) : prepared;
  try {
    const sequences = (await inTurns(historyTurns(template, items, optionsOf(history)), signal))
      .flatMap(withTrainedEnd)
      .map((sequence) => ({ ...sequence, replays: replays.placed(sequence.choices) }));
    const sent = new Set(prepared.filter(({ kind }) => kind === 'choice'));
    return { sequences, numRetokenizedTurns: numRetokenizedTurns(history), sent };
  } catch (cause) {
    signal.throwIfAborted();
    throw new TrainerError('trainer.render_failed', `${where}: ${(cause as Error).message}`, { cause });
  }
}

function optionsOf({ tools, templateVariables = {} }: History): {
  tools: History['tools'];
  templateVariables: Record<string, unknown>;
} {
  return { tools, templateVariables };
}

/** Trains only these choices. */
function onlyChoices(
  sequence: TrainingSequence,
  choices: readonly Pick<PlacedChoice, 'start' | 'choice'>[],
): TrainingSequence {
  const lossMask = new Uint8Array(sequence.lossMask.length);
  for (const { start, choice } of choices) lossMask.fill(1, start, start + choice.tokenIds.length);
  return {
    ...sequence,
    lossMask,
    choices: choices.map(({ start, choice }) => ({ start, choice })),
    numChoices: choices.length,
  };
}

/**
 * Cuts after the last trained token; the first token, which nothing predicts, does not count. Empty if no token
 * is trained.
 */
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

/** Assistant text from elsewhere as a choice: its tokens are trained at ratio 1, its end is not. */
function asChoice(template: ChatTemplate, item: HistoryItem): HistoryItem {
  if (item.kind === 'choice' || item.message.role !== 'assistant' || typeof item.message.content !== 'string')
    return item;
  const tokenIds = template.tokenizer.encode(item.message.content);
  if (tokenIds.length === 0) return item;
  return { kind: 'choice', message: item.message, tokenIds, logprobs: new Float32Array(tokenIds.length).fill(NaN) };
}

const numTrained = ({ lossMask }: Pick<TrainingSequence, 'lossMask'>): number =>
  lossMask.reduce((total, flag) => total + flag, 0);

/** Excludes tokens whose values are computed later. */
const numWithoutLogprobs = ({
  lossMask,
  oldLogprobs,
  replays,
}: Pick<StepSequence, 'lossMask' | 'oldLogprobs' | 'replays'>): number => {
  const isWithout = (i: number): boolean => Number.isNaN(oldLogprobs[i]) && drawAt(replays, i) === null;
  return lossMask.reduce((total, flag, i) => total + (flag === 1 && isWithout(i) ? 1 : 0), 0);
};

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

function reportOf(
  template: ChatTemplate,
  groups: readonly TrajectoryGroup[],
  {
    trained,
    sequences,
    drops,
  }: { trained: readonly Candidate[]; sequences: readonly StepSequence[]; drops: DropLedger },
): Omit<SequenceReport, 'sampling' | 'trajectoryOutcomes' | 'numCopiedChoices' | 'numCopiedTokens'> {
  const trajectories = groups.flatMap((group) => group.trajectories);
  const items = trajectories.flatMap(({ histories }) => histories.flatMap((history) => history.items));
  const choices = trained.flatMap((candidate) =>
    candidate.sequences.flatMap(({ choices: placed, sent }) =>
      placed.flatMap(({ choice }) => (sent.has(choice) ? [choice] : [])),
    ),
  );
  const rendered = trained.flatMap((candidate) => candidate.sequences);
  const branches = rendered.flatMap(({ numBranchTokens }) => numBranchTokens ?? []);
  const fedGroups = new Set(trained.map(({ groupIndex }) => groupIndex));
  const learning = trained.filter(({ advantage }) => advantage !== 0);
  const trainedGroups = new Set(learning.map(({ groupIndex }) => groupIndex));
  return {
    numGroupsSubmitted: groups.length,
    numGroupsTrainable: trainedGroups.size,
    numGroupsRegularized: fedGroups.size - trainedGroups.size,
    numTrajectoriesSubmitted: trajectories.length,
    numTrajectoriesTrainable: learning.length,
    numTrajectoriesRegularized: trained.length - learning.length,
    numSequencesTrainable: sequences.length,
    numTrainableTokens: sum(sequences.map(numTrained)),
    numTokensWithoutLogprobs: sum(sequences.map(numWithoutLogprobs)),
    numTurnsWithoutLogprobs: items.filter(isTurnWithoutLogprobs).length,
    numBranchedTurns: branches.length,
    numBranchTokens: sum(branches),
    numDivergentPrompts: sum(rendered.map(({ numDivergentPrompts }) => numDivergentPrompts)),
    ...driftOf(template, choices),
    numRetokenizedTurns: sum(trained.map((candidate) => candidate.numRetokenizedTurns)),
    ...drops.outcomes(groups, { trained: trainedGroups, fed: fedGroups }),
    droppedTrajectories: drops.trajectories,
    droppedHistories: drops.histories,
  };
}
