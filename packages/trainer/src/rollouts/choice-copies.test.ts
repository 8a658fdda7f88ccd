import type { ChoiceItem, HistoryItem } from '@trainyard/tokenizer';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveTrainingConfig, type TrainingConfigInput } from '../config/training-config.ts';
import { answer, byteTemplate, choice, group, message } from '../testing/chat-groups.ts';
import { trainingSequences } from './training-sequences.ts';
import type { StepSequence } from './training-steps.ts';
import type { History, Trajectory, TrajectoryGroup } from './trajectory.ts';

async function prepare(groups: TrajectoryGroup[], config: TrainingConfigInput = {}) {
  const { signal } = new AbortController();
  return trainingSequences(groups, { template: byteTemplate, config: resolveTrainingConfig(config), signal });
}

/** A sampled reply. */
const reply = (text: string, names: Pick<ChoiceItem, 'recordId' | 'answerPlace'> = {}, logprob = -1): HistoryItem => ({
  ...(choice(text, logprob) as ChoiceItem),
  ...names,
});
const historyOf = (...items: HistoryItem[]): History => ({ items, tools: null });

/** Three turns; `names` of the reply of a turn. */
function conversation(names: (turn: number) => Pick<ChoiceItem, 'recordId' | 'answerPlace'>) {
  return ['one', 'three', 'eleven'].flatMap((text, turn) => [message('user', `${turn}?`), reply(text, names(turn))]);
}
const NUM_TOKENS = 4 + 6 + 7;

/** An agent that keeps its conversation after each turn. */
const snapshots = (items: HistoryItem[]): Trajectory['histories'] => [
  historyOf(...items.slice(0, 2)),
  historyOf(...items.slice(0, 4)),
  historyOf(...items),
];

const NAMED = conversation((turn) => ({ recordId: `r${turn}` }));
const UNNAMED = conversation(() => ({}));

const whatIsTrained = ({ tokenIds, lossMask, oldLogprobs, advantage, weight, numTrajectoryTokens }: StepSequence) => ({
  tokenIds,
  lossMask,
  oldLogprobs,
  advantage,
  weight,
  numTrajectoryTokens,
});

describe('a choice that a trajectory holds more than once', () => {
  it.each([
    ['by its record', NAMED],
    ['by its place in the trie', UNNAMED],
    ['by its place, when only some of the copies lost their record', [...NAMED.slice(0, 4), ...UNNAMED.slice(4)]],
  ])('is trained once, in the longest history: %s', async (_name, items) => {
    const other = answer(0, 'no');
    const trainedOf = async (histories: Trajectory['histories'], config?: TrainingConfigInput) =>
      prepare([group({ reward: 1, histories }, other)], config);
    const once = await trainedOf([historyOf(...items)]);
    const { sequences, report } = await trainedOf(snapshots(items));
    expect(sequences.map(whatIsTrained)).toEqual(once.sequences.map(whatIsTrained));
    expect(report).toMatchObject({
      numCopiedChoices: 3,
      numCopiedTokens: 4 + 4 + 6,
      numTrainableTokens: NUM_TOKENS + 3,
      droppedHistories: { copied: 2 },
    });
    const copied = await trainedOf(snapshots(items), { trainCopies: true });
    expect(copied.report).toMatchObject({ numCopiedTokens: 14, numTrainableTokens: NUM_TOKENS + 14 + 3 });
  });

  it('is trained in a history that fits, when the whole conversation does not', async () => {
    const histories = snapshots(NAMED);
    const length = byteTemplate.render(NAMED.slice(0, 4).map((item) => item.message)).tokenIds.length;
    const { report } = await prepare([group({ reward: 1, histories }, answer(0, 'no'))], {
      packedSequenceLength: length,
    });
    expect(report).toMatchObject({
      numTrainableTokens: 4 + 6 + 3,
      numCopiedTokens: 4,
      droppedHistories: { too_long: 1 },
    });
  });

  it('counts once in the statistics of choices', async () => {
    const cut = { ...(choice('cut') as ChoiceItem), recordId: 'r' };
    const bare = { ...cut, tokenIds: cut.tokenIds.slice(0, -1), logprobs: cut.logprobs.slice(0, -1) };
    const one = historyOf(message('user', 'hi'), bare);
    const { report } = await prepare([group({ reward: 1, histories: [one, one, one] }, answer(0, 'no'))]);
    expect(report).toMatchObject({ numTruncatedChoices: 1, numCopiedChoices: 2, sampling: { numChoices: 2 } });
  });
});

describe('equal answers', () => {
  const attempts = (names: (attempt: number) => Pick<ChoiceItem, 'recordId' | 'answerPlace'>) =>
    [0, 1].map((attempt) => historyOf(message('user', 'hi'), reply('yes', names(attempt))));

  it.each([
    ['two records', attempts((attempt) => ({ recordId: `r${attempt}` }))],
    ['two places of an answer', attempts((attempt) => ({ answerPlace: ` ${attempt}` }))],
  ])('of one trajectory are two samples with %s', async (_name, histories) => {
    const { report } = await prepare([group({ reward: 1, histories }, answer(0, 'no'))]);
    expect(report).toMatchObject({ numCopiedTokens: 0, numTrainableTokens: 4 + 4 + 3 });
  });

  it('of one trajectory are two samples with other log-probabilities', async () => {
    const histories = [-1, -1.5].map((logprob) => historyOf(message('user', 'hi'), reply('yes', {}, logprob)));
    const { report } = await prepare([group({ reward: 1, histories }, answer(0, 'no'))]);
    expect(report.numCopiedTokens).toBe(0);
  });

  it('of two trajectories are two samples, unless they name one record', async () => {
    const equal = [answer(1, 'yes'), answer(1, 'yes'), answer(0, 'no')];
    expect((await prepare([group(...equal)])).report).toMatchObject({ numCopiedTokens: 0, numTrainableTokens: 11 });
  });
});

describe('a choice that several trajectories share', () => {
  const branch = (reward: number, last: string): Trajectory => ({
    reward,
    histories: [historyOf(message('user', 'hi'), reply('begin', { recordId: 'r' }), message('user', '?'), reply(last))],
  });

  it('is trained once, with the mean of their advantages', async () => {
    const trajectories = [branch(1, 'good'), branch(0, 'bad'), branch(0.8, 'fair')];
    const config = { scaleRewards: false, lossAggregation: 'token' } as const;
    const { sequences, report } = await prepare([group(...trajectories, answer(0, 'no'))], config);
    expect(report).toMatchObject({ numCopiedChoices: 2, numCopiedTokens: 12, numTrainableTokens: 6 + 5 + 4 + 5 + 3 });
    const trained = sequences.map(({ tokenIds, lossMask, advantage }) => [
      byteTemplate.tokenizer.decode(
        tokenIds.filter((_, i) => lossMask[i] === 1),
        { skipSpecial: true },
      ),
      Number(advantage.toFixed(6)),
    ]);
    expect(trained).toEqual([
      ['begin', 0.15],
      ['good', 0.55],
      ['bad', -0.45],
      ['fair', 0.35],
      ['no', -0.45],
    ]);
  });

  it('leaves out a trajectory that has only copies, and reports it', async () => {
    const twice = { reward: 1, histories: [historyOf(message('user', 'hi'), reply('yes', { recordId: 'r' }))] };
    const { report, sequences } = await prepare([group(twice, twice, answer(0, 'no'))]);
    expect(report.trajectoryOutcomes[0]!.map(({ outcome }) => outcome)).toEqual(['trained', 'copied', 'trained']);
    expect(report.droppedTrajectories).toEqual({ copied: 1 });
    expect(sequences).toHaveLength(2);
  });
});

it('trains each named sample exactly once, however histories repeat them', async () => {
  const history = fc.array(fc.nat(3), { minLength: 1, maxLength: 4 });
  const trajectory = fc.array(history, { minLength: 1, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(fc.array(trajectory, { minLength: 2, maxLength: 3 }), async (trajectories) => {
      const sent = new Set<string>();
      const groups = [
        group(
          ...trajectories.map((histories, index) => ({
            reward: index,
            histories: histories.map((turns) => {
              const items = turns.flatMap((turn, place) => {
                // A sample is identified by its place, including the text before it.
                const recordId = turns.slice(0, place + 1).join();
                sent.add(recordId);
                return [message('user', `${turn}?`), reply(`a${turn}`, { recordId })];
              });
              return historyOf(...items);
            }),
          })),
        ),
      ];
      const { report } = await prepare(groups, { klPenaltyCoef: 0.1 });
      expect(report.numTrainableTokens).toBe(3 * sent.size);
    }),
    { numRuns: 60 },
  );
});
