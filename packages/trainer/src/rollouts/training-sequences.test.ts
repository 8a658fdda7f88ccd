import { ChatTemplate } from '@trainyard/tokenizer';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { resolveTrainingConfig, type TrainingConfigInput } from '../config/training-config.ts';
import { packRows } from '../packing/pack.ts';
import { answer, byteTemplate, choice, END_TOKEN, group, message, twoTurns } from '../testing/chat-groups.ts';
import { trainingSequences } from './training-sequences.ts';
import type { TrajectoryGroup } from './trajectory.ts';
import { validateGroups } from './validate-groups.ts';

const VOCABULARY_SIZE = 259;

async function prepare(groups: TrajectoryGroup[], config: TrainingConfigInput = {}) {
  const resolved = resolveTrainingConfig(config);
  validateGroups(groups, VOCABULARY_SIZE, resolved.allowTrainingWithoutLogprobs);
  const signal = new AbortController().signal;
  return trainingSequences(groups, { template: byteTemplate, config: resolved, signal });
}

const sum = (counts: Record<string, number>): number =>
  Object.values(counts).reduce((total, count) => total + count, 0);

describe('trainingSequences', () => {
  it('trains the sampled tokens, end token included, after the rendered prompt', async () => {
    const { sequences } = await prepare([group(answer(1, 'yes'), answer(0, 'no'))]);
    const [yes, no] = sequences;
    expect(byteTemplate.tokenizer.decode(yes!.tokenIds)).toBe(
      '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>',
    );
    const trained = yes!.tokenIds.filter((_, i) => yes!.lossMask[i] === 1);
    expect([...trained]).toEqual([...Buffer.from('yes'), END_TOKEN]);
    expect([...yes!.oldLogprobs].filter((logprob) => !Number.isNaN(logprob))).toEqual([-1, -1, -1, -1]);
    expect(yes!.advantage).toBeCloseTo(1, 4);
    expect(no!.advantage).toBeCloseTo(-1, 4);
    expect(4 * yes!.weight).toBeCloseTo(3 * no!.weight, 5);
  });

  it('renders each history with the template variables that it was sampled with', async () => {
    const source = '{% for m in messages %}{{ m.content }}{% endfor %}{% if thinks %}T{% else %}N{% endif %}';
    const template = new ChatTemplate(byteTemplate.tokenizer, source);
    const history = (thinks: boolean) => ({ ...answer(1, 'yes').histories[0]!, templateVariables: { thinks } });
    const groups = [group({ reward: 1, histories: [history(true)] }, { reward: 0, histories: [history(false)] })];
    const { signal } = new AbortController();
    const { sequences } = await trainingSequences(groups, { template, config: resolveTrainingConfig({}), signal });
    const texts = sequences.map(({ tokenIds }) => template.tokenizer.decode(tokenIds, { skipSpecial: true }));
    expect(texts).toEqual(['hiTyes', 'hiNyes']);
  });

  it('hears of a cancellation between two turns of one history', async () => {
    const items = Array.from({ length: 20 }, (_, turn) => [message('user', `${turn}?`), choice('yes')]).flat();
    const controller = new AbortController();
    // It waits once before the first history.
    setImmediate(() => setImmediate(() => controller.abort(new Error('cancelled'))));
    const { signal } = controller;
    const config = resolveTrainingConfig({});
    const groups = [group({ reward: 1, histories: [{ items, tools: null }] }, answer(0, 'no'))];
    await expect(trainingSequences(groups, { template: byteTemplate, config, signal })).rejects.toThrow('cancelled');
  });

  it('counts dropped items by reason', async () => {
    const long = answer(1, 'y'.repeat(300));
    const untrainable = {
      reward: 0,
      histories: [{ items: [message('user', 'hi'), message('assistant', 'typed')], tools: null }],
    };
    const { sequences, report } = await prepare(
      [
        group(),
        group(answer(1, 'alone')),
        group(answer(0.1, 'a'), answer(0.1, 'b'), answer(0.1, 'c')),
        group(answer(0, 'a'), answer(0.5, 'b'), answer(1, 'c')),
        group(long, untrainable),
      ],
      { packedSequenceLength: 100 },
    );
    expect(sequences).toHaveLength(2);
    const { trajectoryOutcomes, ...counted } = report;
    expect(trajectoryOutcomes.map((group) => group.map(({ outcome }) => outcome))).toEqual([
      [],
      ['single_trajectory'],
      ['equal_rewards', 'equal_rewards', 'equal_rewards'],
      ['trained', 'zero_advantage', 'trained'],
      ['too_long', 'missing_logprobs'],
    ]);
    expect(trajectoryOutcomes[3]?.map(({ advantage }) => advantage)).toEqual([
      expect.closeTo(-1.2247, 3),
      0,
      expect.closeTo(1.2247, 3),
    ]);
    expect(trajectoryOutcomes[2]?.map(({ advantage }) => advantage)).toEqual([null, null, null]);
    expect(counted).toEqual({
      numGroupsSubmitted: 5,
      numGroupsTrainable: 1,
      numGroupsRegularized: 0,
      numTrajectoriesSubmitted: 9,
      numTrajectoriesTrainable: 2,
      numTrajectoriesRegularized: 0,
      numSequencesTrainable: 2,
      numTrainableTokens: 4,
      numTokensWithoutLogprobs: 0,
      numBranchedTurns: 0,
      numCopiedChoices: 0,
      numCopiedTokens: 0,
      numBranchTokens: 0,
      numDivergentPrompts: 0,
      numTruncatedChoices: 0,
      numRetokenizedTurns: 0,
      numChoicesWithOtherText: 0,
      numTurnsWithoutLogprobs: 1,
      groupOutcomes: ['no_trajectories', 'single_trajectory', 'equal_rewards', 'trained', 'missing_logprobs'],
      droppedGroups: { no_trajectories: 1, single_trajectory: 1, equal_rewards: 1, missing_logprobs: 1 },
      droppedTrajectories: {
        single_trajectory: 1,
        equal_rewards: 3,
        zero_advantage: 1,
        missing_logprobs: 1,
        too_long: 1,
      },
      droppedHistories: { missing_logprobs: 1, too_long: 1 },
      sampling: { numChoices: 4, numReplayed: 0, unreplayed: { unknown: 4 }, refused: {}, changes: {} },
    });
  });

  it('drops a history that is too long and keeps the other with its advantage', async () => {
    const { sequences } = await prepare([group(answer(0, 'x'.repeat(10)), answer(1, 'y'.repeat(100)))], {
      packedSequenceLength: 60,
    });
    expect(sequences.map(({ advantage, weight }) => [advantage, weight])).toEqual([[expect.closeTo(-1, 5), 1]]);
  });

  it('gives a turn that was sampled after other tokens a history of its own, with the same credit', async () => {
    const { sequences, report } = await prepare([group(twoTurns(1, ['yes  ', 'so']), answer(0, 'no'))]);
    expect(sequences.map(({ tokenIds }) => byteTemplate.tokenizer.decode(tokenIds))).toEqual([
      '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes  <|im_end|>',
      '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n' +
        '<|im_start|>user\nand?<|im_end|>\n<|im_start|>assistant\nso<|im_end|>',
      '<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nno<|im_end|>',
    ]);
    expect(sequences.map(({ sequenceIndex, numTokens, numTrajectoryTokens }) => [sequenceIndex, numTokens, numTrajectoryTokens]))
      .toEqual([[0, 6, 9], [1, 3, 9], [0, 3, 3]]); // prettier-ignore
    expect(new Set(sequences.slice(0, 2).map(({ weight }) => weight)).size).toBe(1);
    expect(new Set(sequences.slice(0, 2).map(({ advantage }) => advantage)).size).toBe(1);
    // From `yes` on, which both have: the end, the next question, and the opening of the reply.
    const alone = byteTemplate.tokenizer.encode('\nuser\nand?\nassistant\n').length + 4;
    expect(report).toMatchObject({
      numBranchedTurns: 1,
      numBranchTokens: alone,
      numSequencesTrainable: 3,
      numTrainableTokens: 12,
    });
  });

  it('drops only such a history if it is too long', async () => {
    const { sequences, report } = await prepare([group(twoTurns(1, ['yes ', 'o'.repeat(60)]), answer(0, 'no'))], {
      packedSequenceLength: 60,
    });
    expect(sequences.map(({ numTokens, numTrajectoryTokens }) => [numTokens, numTrajectoryTokens])).toEqual([
      [5, 66],
      [3, 3],
    ]);
    expect(report).toMatchObject({
      numBranchedTurns: 0,
      numTrajectoriesTrainable: 2,
      droppedHistories: { too_long: 1 },
      droppedTrajectories: {},
    });
  });

  it('counts a trajectory without trainable tokens in the mean of its group', async () => {
    const untrainable = {
      reward: 3,
      histories: [{ items: [message('user', 'hi'), message('assistant', 'typed')], tools: null }],
    };
    const { sequences } = await prepare([group(answer(0, 'a'), answer(1, 'b'), untrainable)]);
    expect(sequences.map(({ advantage }) => Math.sign(advantage))).toEqual([-1, -1]);
    expect(sequences[0]!.advantage / sequences[1]!.advantage).toBeCloseTo(4, 9); // (0 - 4/3) / (1 - 4/3)
  });

  it('trains plain assistant text only when allowed, its end of turn never', async () => {
    const typed = (reward: number, content: string) => ({
      reward,
      histories: [{ items: [message('user', 'hi'), message('assistant', content)], tools: null }],
    });
    const groups = [group(typed(1, 'yes'), typed(0, 'no'))];
    expect((await prepare(groups)).report.droppedTrajectories).toEqual({ missing_logprobs: 2 });
    const { sequences, report } = await prepare(groups, { allowTrainingWithoutLogprobs: true });
    expect(
      byteTemplate.tokenizer.decode(sequences[0]!.tokenIds.filter((_, i) => sequences[0]!.lossMask[i] === 1)),
    ).toBe('yes');
    expect(sequences[0]!.oldLogprobs.every(Number.isNaN)).toBe(true);
    expect(report.numTokensWithoutLogprobs).toBe(5);
  });

  it('trains ids without log-probabilities as they are, when allowed', async () => {
    const bare = (reward: number, content: string) => {
      const item = choice(content, NaN);
      return { reward, histories: [{ items: [message('user', 'hi'), item], tools: null }] };
    };
    const groups = [group(bare(1, 'yes'), bare(0, 'no'))];
    await expect(prepare(groups)).rejects.toMatchObject({ code: 'trainer.logprob_invalid' });
    const { sequences, report } = await prepare(groups, { allowTrainingWithoutLogprobs: true });
    const trained = sequences[0]!.tokenIds.filter((_, i) => sequences[0]!.lossMask[i] === 1);
    expect(trained).toEqual(Int32Array.of(...Buffer.from('yes'), END_TOKEN));
    expect(report).toMatchObject({ numTokensWithoutLogprobs: 7, numTurnsWithoutLogprobs: 2, numRetokenizedTurns: 0 });
  });

  it('counts turns that were cut, tokenised again, or differ from their tokens', async () => {
    const sampled = choice('sampled');
    if (sampled.kind !== 'choice') throw new Error('not a choice');
    const cut = { ...sampled, tokenIds: sampled.tokenIds.subarray(0, -1), logprobs: sampled.logprobs.subarray(0, -1) };
    const other = { ...sampled, message: { role: 'assistant', content: 'written' } };
    // Text removed by parsers and clients is no difference: white space, the rest of a text, cut characters.
    const shorter = { ...sampled, message: { role: 'assistant', content: ' sam\n\uFFFD' } };
    const history = (...items: (typeof sampled | ReturnType<typeof message>)[]) => [{ items, tools: null }];
    const user = message('user', 'hi');
    const { report } = await prepare([
      group(
        {
          reward: 1,
          histories: history(user, message('assistant', 'typed'), user, cut, user, message('assistant', 'x')),
        },
        { reward: 0, histories: history(user, other) },
        { reward: 0.7, histories: history(user, shorter) },
      ),
    ]);
    expect(report).toMatchObject({
      numTruncatedChoices: 1,
      numRetokenizedTurns: 1,
      numTurnsWithoutLogprobs: 2,
      numChoicesWithOtherText: 1,
      numTrajectoriesTrainable: 3,
    });
  });

  it('names the reason of each group, in order', async () => {
    const empty = { reward: 1, histories: [] };
    const { report } = await prepare([
      { trajectories: [], numExceptions: 2 },
      group(answer(0, 'a'), answer(1, 'b')),
      group(empty, { ...empty, reward: 0 }),
    ]);
    expect(report.groupOutcomes).toEqual(['exception', 'trained', 'no_trainable_tokens']);
    expect(report.droppedGroups).toEqual({ exception: 1, no_trainable_tokens: 1 });
  });

  it('trains every history of a trajectory with its advantage', async () => {
    const items = [message('user', 'a'), choice('b')];
    const twice = {
      reward: 1,
      histories: [
        { items, tools: null },
        { items: [message('user', 'c'), choice('d')], tools: null },
      ],
    };
    const { sequences, report } = await prepare([group(twice, answer(0, 'e'))]);
    expect(report.numTrajectoriesTrainable).toBe(2);
    expect(sequences).toHaveLength(3);
    expect(sequences[0]!.advantage).toBe(sequences[1]!.advantage);
    expect(2 * sequences[0]!.weight).toBeCloseTo(sequences[2]!.weight, 5);
  });

  it('has nothing to train when the balance removes all there is', async () => {
    const untrainable = { reward: 1, histories: [] };
    const { sequences, report } = await prepare([group(answer(0, 'a'), untrainable)], { advantageBalance: 1 });
    expect(sequences).toEqual([]);
    expect(report.droppedTrajectories).toEqual({ no_trainable_tokens: 1, balanced_away: 1 });
  });

  it('prepares ten thousand trajectories in bounded memory, and packs every one', async () => {
    const groups = Array.from({ length: 625 }, (_, question) =>
      group(...Array.from({ length: 16 }, (_unused, index) => answer(index % 4, `${16 * question + index}`))),
    );
    const before = process.memoryUsage().rss;
    const started = performance.now();
    const { sequences, maxTokens, report } = await prepare(groups);
    const rows = packRows(sequences, maxTokens, 0);
    const [seconds, grown] = [(performance.now() - started) / 1000, (process.memoryUsage().rss - before) / 1e6];
    console.log(`10,000 trajectories → ${rows.length} rows: ${seconds.toFixed(1)} s, ${grown.toFixed(0)} MB more`);
    expect(report).toMatchObject({ numTrajectoriesTrainable: 10_000, numGroupsTrainable: 625 });
    expect(rows.reduce((total, { numTrajectories }) => total + numTrajectories, 0)).toBe(10_000);
    expect(grown).toBeLessThan(500);
  });

  it('accounts for every trajectory and every group', async () => {
    const trajectory = fc.record({
      reward: fc.constantFrom(0, 0.1, 0.5, 1),
      content: fc.constantFrom('', 'a', 'bb', 'c'.repeat(80)),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(trajectory, { maxLength: 5 }), { maxLength: 5 }), async (drawn) => {
        const groups = drawn.map((members) =>
          group(
            ...members.map(({ reward, content }) =>
              content === '' ? { reward, histories: [] } : answer(reward, content),
            ),
          ),
        );
        const { report, sequences } = await prepare(groups, { packedSequenceLength: 90 });
        expect(report.numTrajectoriesTrainable + sum(report.droppedTrajectories)).toBe(report.numTrajectoriesSubmitted);
        expect(report.numGroupsTrainable + sum(report.droppedGroups)).toBe(report.numGroupsSubmitted);
        expect(sequences.length).toBe(report.numSequencesTrainable);
      }),
      { numRuns: 50 },
    );
  });
});

describe('validateGroups', () => {
  const tampered = (change: (item: { tokenIds: Int32Array; logprobs: Float32Array }) => void): TrajectoryGroup => {
    const trajectory = answer(1, 'yes');
    change(
      trajectory.histories[0]!.items[1] as {
        tokenIds: Int32Array;
        logprobs: Float32Array;
      } & (typeof trajectory.histories)[0]['items'][1],
    );
    return group(answer(0, 'no'), trajectory);
  };
  const where = 'group 1, trajectory 1, history 0, item 1';
  it.each([
    [
      'an id outside the vocabulary',
      tampered(({ tokenIds }) => tokenIds.fill(259, 2, 3)),
      'trainer.token_out_of_range',
      `${where}: token 2 has id 259, outside the vocabulary of 259`,
    ],
    [
      'a negative id',
      tampered(({ tokenIds }) => tokenIds.fill(-1)),
      'trainer.token_out_of_range',
      `${where}: token 0 has id -1, outside the vocabulary of 259`,
    ],
    [
      'a positive logprob',
      tampered(({ logprobs }) => logprobs.fill(0.5)),
      'trainer.logprob_invalid',
      `${where}: token 0 has log-probability 0.5, which must be finite and at most 0`,
    ],
    [
      'NaN',
      tampered(({ logprobs }) => logprobs.fill(NaN, 1)),
      'trainer.logprob_invalid',
      `${where}: token 1 has log-probability NaN, which must be finite and at most 0`,
    ],
    [
      '-Infinity',
      tampered(({ logprobs }) => logprobs.fill(-Infinity)),
      'trainer.logprob_invalid',
      `${where}: token 0 has log-probability -Infinity, which must be finite and at most 0`,
    ],
    [
      'an infinite reward',
      group(answer(0, 'a'), answer(Infinity, 'b')),
      'trainer.reward_not_finite',
      'group 1, trajectory 1: the reward must be a finite number, got Infinity',
    ],
  ])('refuses %s, with its position', (_name, bad, code, text) => {
    expect(() => validateGroups([group(answer(1, 'fine')), bad], VOCABULARY_SIZE, false)).toThrow(
      expect.objectContaining({ code, message: text }),
    );
  });

  it('lets the rounding of certainty pass', () => {
    expect(() =>
      validateGroups([tampered(({ logprobs }) => logprobs.fill(5e-7))], VOCABULARY_SIZE, false),
    ).not.toThrow();
  });
});
