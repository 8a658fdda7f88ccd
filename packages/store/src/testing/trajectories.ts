import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Store } from '../parts/store.ts';
import type { TrajectoryQuery } from '../parts/trajectories/trajectories.ts';
import { addModel, claim, contentsOf, type MakeHarness, ManualClock, type StoreHarness, train } from './harness.ts';

const DAY_MS = 24 * 3_600_000;

export function trajectorySuite(makeHarness: MakeHarness): void {
  describe('trajectories', () => {
    let harness: StoreHarness;
    let store: Store;
    let clock: ManualClock;
    beforeEach(async () => {
      harness = await makeHarness();
      clock = new ManualClock();
      store = await harness.open({ clock: clock.read });
    });
    afterEach(() => harness.destroy());

    let numBlobs = 0;
    const submit = async (modelId: string, rewards: number[][]) => {
      const job = await store.jobs.enqueue({
        modelId,
        kind: 'rl',
        config: {},
        dataKey: `groups/t${numBlobs++}`,
        rewards,
      });
      return job?.id ?? '';
    };
    const log = async (modelId: string, split: string, rewards: number[][]) => {
      const counts = { numGroups: 1, numTrajectories: 1, numExceptions: 0 };
      const blobKey = `logs/t${numBlobs++}`;
      return (
        (await store.trajectories.recordLog({ modelId, split, blobKey, ...counts, metrics: {}, rewards }))?.id ?? ''
      );
    };
    const ids = async (query: TrajectoryQuery) => (await store.trajectories.list(query)).items.map(({ id }) => id);

    it('those of jobs and logs are listed in order, by step, split, job, log and group', async () => {
      const { id: modelId } = await addModel(store);
      await train(store, modelId, 'checkpoints/1');
      const jobId = await submit(modelId, [[1, 0], [], [0.5]]);
      const logId = await log(modelId, 'val', [[0.25]]);
      const of = (id: string, ...places: string[]) => places.map((place) => `${id}.${place}`);
      const all = [...of(jobId, '0.0', '0.1', '2.0'), ...of(logId, '0.0')];
      expect(await ids({ modelId })).toEqual(all);
      expect(await ids({ modelId, order: 'desc' })).toEqual(all.toReversed());
      expect(await ids({ modelId, jobId })).toEqual(all.slice(0, 3));
      expect(await ids({ modelId, logId })).toEqual(all.slice(3));
      expect(await ids({ modelId, jobId: logId })).toEqual([]);
      expect(await ids({ modelId, split: 'train' })).toEqual(all.slice(0, 3));
      expect(await ids({ modelId, split: 'val', step: 1 })).toEqual(all.slice(3));
      expect(await ids({ modelId, step: 0 })).toEqual([]);
      expect(await ids({ modelId, jobId, groupIndex: 0 })).toEqual(all.slice(0, 2));
      expect(await store.trajectories.get(`${jobId}.2.0`)).toEqual({
        id: `${jobId}.2.0`,
        entityId: (await store.models.get(modelId))?.entityId,
        modelId,
        jobId,
        logId: null,
        split: 'train',
        step: 1,
        groupIndex: 2,
        trajectoryIndex: 0,
        reward: 0.5,
        outcome: null,
        advantage: null,
        createdAt: (await store.jobs.get(jobId))?.createdAt,
        promptDigest: null,
        question: null,
        reply: null,
        numTurns: null,
        numTokens: null,
        finishReason: null,
        metrics: {},
        blobKey: (await store.jobs.get(jobId))?.dataKey,
      });
      expect(await store.trajectories.get(`${logId}.0.0`)).toMatchObject({ jobId: null, logId, split: 'val' });
      for (const unknown of [`${jobId}.1.0`, `${jobId}.0.2`, jobId, '', 'x.0.0', `${jobId}.0.0.0`])
        expect(await store.trajectories.get(unknown)).toBeNull();
    });

    it('those of the same prompt are found over jobs, logs and steps', async () => {
      const { id: modelId } = await addModel(store);
      const add = async (rewards: number[][], prompts: (string | null)[][]) => {
        const job = await store.jobs.enqueue({
          modelId,
          kind: 'rl',
          config: {},
          dataKey: `g/${numBlobs++}`,
          rewards,
          contents: prompts.map((group) => group.map((digest) => contentsOf(digest))),
        });
        return job?.id ?? '';
      };
      const first = await add([[1, 0], [0.5]], [['a', 'b'], ['a']]);
      const { fencingToken } = await claim(store);
      await store.jobs.succeed(first, fencingToken, { directoryKey: null, digest: null, metrics: {} });
      const second = await add([[2], [3]], [[null], ['a']]);
      expect(await ids({ modelId, promptDigest: 'a' })).toEqual([`${first}.0.0`, `${first}.1.0`, `${second}.1.0`]);
      expect(await ids({ modelId, promptDigest: 'a', jobId: second })).toEqual([`${second}.1.0`]);
      expect(await ids({ modelId, promptDigest: 'b' })).toEqual([`${first}.0.1`]);
      expect(await ids({ modelId, promptDigest: 'none' })).toEqual([]);
      expect(await store.trajectories.get(`${second}.0.0`)).toMatchObject({ promptDigest: null });
      expect(await store.trajectories.get(`${second}.1.0`)).toMatchObject({ promptDigest: 'a' });
    });

    it('contents come with a job or log, or are computed later, and their texts are removed with the data', async () => {
      const { id: modelId } = await addModel(store);
      const reads = async (id: string) => {
        const record = await store.trajectories.get(id);
        return record && { digest: record.promptDigest, question: record.question, numTokens: record.numTokens };
      };
      const known = await store.trajectories.recordLog({
        modelId,
        split: 'val',
        blobKey: 'logs/known',
        metrics: {},
        numGroups: 1,
        numTrajectories: 1,
        numExceptions: 0,
        rewards: [[1]],
        contents: [[contentsOf('a', { numTokens: null })]],
      });
      expect(await store.trajectories.get(`${known!.id}.0.0`)).toMatchObject(contentsOf('a', { numTokens: null }));
      const older = [await log(modelId, 'val', [[1, 2], [3]]), await log(modelId, 'val', [[4]])];
      const listed = () => store.trajectories.listOutdatedContents(10);
      expect((await listed()).map(({ setId }) => setId)).toEqual(older.toReversed());
      expect((await store.trajectories.listOutdatedContents(1)).map(({ setId }) => setId)).toEqual([older[1]]);
      const [first, second] = older as [string, string];
      expect(await store.trajectories.replaceContents(first, 1, [[contentsOf('c')]])).toBe(true);
      expect(await reads(`${first}.1.0`)).toEqual({ digest: null, question: null, numTokens: 9 });
      expect(await ids({ modelId, promptDigest: 'c' })).toEqual([]);
      expect(await store.trajectories.replaceContents(first, 0, [[contentsOf('b'), contentsOf(null)]])).toBe(true);
      await store.trajectories.settleContents(first, 'kept');
      expect(await reads(`${first}.1.0`)).toEqual({ digest: 'c', question: 'ä 🚂?', numTokens: 9 });
      expect(await ids({ modelId, promptDigest: 'b' })).toEqual([`${first}.0.0`]);
      expect(await store.trajectories.replaceContents(first, 0, [[contentsOf('late')]])).toBe(false);
      clock.advance(DAY_MS);
      await store.trajectories.expire(clock.read(), 10);
      expect(await reads(`${first}.1.0`)).toEqual({ digest: 'c', question: null, numTokens: 9 });
      const expired = await listed();
      expect(new Set(expired.map(({ setId }) => setId))).toEqual(new Set([known!.id, first, second]));
      for (const { setId, blobKey } of expired) {
        expect(blobKey).toBeNull();
        expect(await store.trajectories.replaceContents(first, 0, [[contentsOf('late')]])).toBe(false);
        await store.trajectories.settleContents(setId, 'removed');
      }
      expect(await listed()).toEqual([]);
      expect(await reads(`${first}.1.0`)).toEqual({ digest: 'c', question: null, numTokens: 9 });
      expect(await reads(`${known!.id}.0.0`)).toEqual({ digest: 'a', question: null, numTokens: null });
    });

    it('they are filtered by reward, outcome and end, and sorted by tokens and turns, page by page', async () => {
      const { id: modelId } = await addModel(store);
      const tokens = [5, null, 7, 5, 1];
      const job = await store.jobs.enqueue({
        modelId,
        kind: 'rl',
        config: {},
        dataKey: 'groups/filtered',
        rewards: [[0, 0.25, 0.5, 0.75, 1]],
        contents: [
          tokens.map((numTokens, index) =>
            contentsOf('a', { numTokens, numTurns: 5 - index, finishReason: index % 2 === 0 ? 'stop' : 'length' }),
          ),
        ],
      });
      const of = async (query: Omit<TrajectoryQuery, 'modelId'>) =>
        (await ids({ modelId, ...query })).map((id) => Number(id.split('.').at(-1)));
      expect(await of({ minReward: 0.25, maxReward: 0.75 })).toEqual([1, 2, 3]);
      expect(await of({ minReward: 0.5, finishReason: 'stop', jobId: job!.id })).toEqual([2, 4]);
      expect(await of({ finishReason: 'length', order: 'desc' })).toEqual([3, 1]);
      expect(await of({ outcome: 'trained' })).toEqual([]);
      expect(await of({ sort: 'num_tokens' })).toEqual([1, 4, 0, 3, 2]);
      expect(await of({ sort: 'num_turns', order: 'desc' })).toEqual([0, 1, 2, 3, 4]);
      for (const [sort, order] of [
        ['num_tokens', 'asc'],
        ['num_tokens', 'desc'],
        ['num_turns', 'asc'],
        ['reward', 'desc'],
      ] as const) {
        const paged: number[] = [];
        for (let after: string | null = null; ;) {
          const page = await store.trajectories.list({ modelId, sort, order, after, limit: 2 });
          paged.push(...page.items.map(({ trajectoryIndex }) => trajectoryIndex));
          after = page.items.at(-1)?.id ?? null;
          if (!page.hasMore) break;
        }
        expect(paged).toEqual(await of({ sort, order }));
      }
    });

    it('those of a large split come in every order, with common and rare values alike', async () => {
      const { id: modelId } = await addModel(store);
      const rewards = Array.from({ length: 520 }, (_, group) => Array.from({ length: 10 }, () => group % 7));
      const contents = rewards.map((group, number) =>
        group.map((_, index) =>
          contentsOf('a', {
            numTokens: (number * 31 + index) % 997,
            finishReason: number === 3 && index < 4 ? 'length' : 'stop',
          }),
        ),
      );
      await store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: 'groups/large', rewards, contents });
      await log(modelId, 'val', [[3]]);
      const all = contents.flatMap((group, number) =>
        group.map(({ numTokens, finishReason }, index) => ({ place: `${number}.${index}`, numTokens, finishReason })),
      );
      const longest = all
        .map((one, position) => ({ ...one, position }))
        .toSorted((one, other) => other.numTokens! - one.numTokens! || other.position - one.position);
      const of = async (query: Omit<TrajectoryQuery, 'modelId'>) =>
        (await ids({ modelId, split: 'train', sort: 'num_tokens', order: 'desc', limit: 50, ...query })).map((id) =>
          id.split('.').slice(1).join('.'),
        );
      expect(await of({})).toEqual(longest.slice(0, 50).map(({ place }) => place));
      for (const finishReason of ['stop', 'length'])
        expect(await of({ finishReason })).toEqual(
          longest
            .filter((one) => one.finishReason === finishReason)
            .slice(0, 50)
            .map(({ place }) => place),
        );
      expect(await of({ split: 'val' })).toEqual(['0.0']);
    });

    it('a failed or cancelled job is tried again with its data and rollouts; others are not', async () => {
      const { id: modelId } = await addModel(store);
      const job = await store.jobs.enqueue({
        modelId,
        kind: 'rl',
        config: { a: 1 },
        dataKey: 'groups/again',
        rewards: [[1, 0], [], [0.5]],
        contents: [[contentsOf('a'), contentsOf('b')], [], [contentsOf('a')]],
      });
      const lastOf = async () => (await store.models.getStates([modelId])).get(modelId)?.lastJob;
      expect(await lastOf()).toBeNull();
      expect(await store.jobs.retry(job!.id, {})).toMatchObject({ kind: 'live' });
      const { id, fencingToken } = await claim(store);
      await store.jobs.fail(id, fencingToken, 'a loss is NaN');
      expect(await lastOf()).toMatchObject({ id, status: 'failed', errorMessage: 'a loss is NaN' });
      const again = await store.jobs.retry(id, {});
      if (again?.kind !== 'queued') throw new Error('it was not queued');
      expect(again.job).toMatchObject({ kind: 'rl', config: { a: 1 }, dataKey: 'groups/again', status: 'queued' });
      const listed = (await store.trajectories.list({ modelId, jobId: again.job.id })).items;
      expect(
        listed.map(({ id: place, reward, promptDigest, outcome }) => [place, reward, promptDigest, outcome]),
      ).toEqual([
        [`${again.job.id}.0.0`, 1, 'a', null],
        [`${again.job.id}.0.1`, 0, 'b', null],
        [`${again.job.id}.2.0`, 0.5, 'a', null],
      ]);
      const next = await claim(store);
      await store.jobs.succeed(next.id, next.fencingToken, { directoryKey: null, digest: null, metrics: {} });
      expect(await lastOf()).toMatchObject({ id: next.id, status: 'succeeded', errorMessage: null });
      expect(await store.jobs.retry(next.id, {})).toMatchObject({ kind: 'succeeded' });
      expect(await store.jobs.retry('unknown', {})).toBeNull();
      clock.advance(DAY_MS);
      await store.trajectories.expire(clock.read(), 10);
      expect(await store.jobs.retry(id, {})).toMatchObject({ kind: 'data_removed' });
    });

    it('a model with many is removed in parts, and readers see all or none of it meanwhile', async () => {
      const { id: modelId } = await addModel(store);
      const other = await addModel(store, 'other');
      const rewards = Array.from({ length: 250 }, () => Array.from({ length: 10 }, (_, index) => index));
      const jobId = await submit(modelId, rewards);
      await submit(other.id, [[1]]);
      await store.trajectories.recordLog({
        modelId,
        split: 'val',
        blobKey: 'logs/many',
        metrics: { 'val/reward': 1 },
        numGroups: 1,
        numTrajectories: 1,
        numExceptions: 0,
      });
      const seen = async () => [
        (await store.trajectories.list({ modelId, limit: 1000 })).items.length,
        (await store.trajectories.list({ modelId, jobId, limit: 1000 })).items.length,
        (await store.runs.listSeries(modelId)).length,
        (await store.trajectories.get(`${jobId}.0.0`)) === null ? 0 : 1,
      ];
      expect(await seen()).toEqual([1000, 1000, 1, 1]);
      let isOver = false;
      const deleting = store.models.delete(modelId).finally(() => (isOver = true));
      let numLooks = 0;
      let isGone = false;
      while (!isOver) {
        isGone ||= (await store.models.get(modelId)) === null;
        const [listed, ofJob, numSeries, one] = await seen();
        // A read is several statements, so the trajectory may disappear between them; it never returns.
        if (isGone) expect([listed, ofJob, numSeries, one]).toEqual([0, 0, 0, 0]);
        else expect([0, 1000]).toContain(listed);
        numLooks += 1;
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(await deleting).toMatchObject({ deletedRun: true });
      expect(numLooks).toBeGreaterThan(0);
      expect(await seen()).toEqual([0, 0, 0, 0]);
      expect(await ids({ modelId: other.id })).toHaveLength(1);
      clock.advance(8 * DAY_MS);
      expect(await store.purgeExpired()).toMatchObject({ numModels: 1 });
    });

    it('by reward each comes once, even with equal rewards', async () => {
      const { id: modelId } = await addModel(store);
      const rewards = Array.from({ length: 13 }, (_, group) => Array.from({ length: 9 }, (__, i) => (group * i) % 4));
      await submit(modelId, rewards);
      await submit((await addModel(store, 'other')).id, [[9]]);
      const expected = rewards.flat().toSorted((first, second) => first - second);
      for (const order of ['asc', 'desc'] as const) {
        const seen: { id: string; reward: number }[] = [];
        let after: string | null = null;
        for (;;) {
          const page = await store.trajectories.list({ modelId, sort: 'reward', order, after, limit: 10 });
          seen.push(...page.items);
          after = page.items.at(-1)?.id ?? null;
          if (!page.hasMore) break;
        }
        expect(new Set(seen.map(({ id }) => id)).size).toBe(117);
        expect(seen.map(({ reward }) => reward)).toEqual(order === 'asc' ? expected : expected.toReversed());
      }
      await expect(store.trajectories.list({ modelId, after: 'nonsense' })).rejects.toMatchObject({
        code: 'store.cursor_unknown',
      });
      await log(modelId, 'val', [[Infinity, -Infinity]]);
      const [most] = (await store.trajectories.list({ modelId, sort: 'reward', order: 'desc', limit: 1 })).items;
      expect(most?.reward).toBe(Number.MAX_VALUE);
    });

    it('the step of a job is the one that it starts from, and its trajectories get their outcomes once', async () => {
      const { id: modelId } = await addModel(store);
      const first = await submit(modelId, [[1, 0]]);
      const second = await submit(modelId, [[1, 0]]);
      const finish = async () => {
        const { id, fencingToken } = await claim(store);
        const outcomes = [
          [
            { outcome: 'trained', advantage: 1 },
            { outcome: 'zero_advantage', advantage: null },
          ],
        ];
        const event = { type: 'training_started', data: {}, dedupeKey: 'training_started' };
        await store.jobs.appendEvent(id, fencingToken, { ...event, outcomes });
        const other = [[{ outcome: 'other', advantage: 2 }]];
        await store.jobs.appendEvent(id, fencingToken, { ...event, outcomes: other });
        await store.jobs.succeed(id, fencingToken, { directoryKey: null, digest: null, metrics: {} });
      };
      await finish();
      await finish();
      expect((await store.trajectories.list({ modelId, jobId: first })).items).toMatchObject([
        { step: 0, outcome: 'trained', advantage: 1 },
        { step: 0, outcome: 'zero_advantage', advantage: null },
      ]);
      expect(await ids({ modelId, step: 1 })).toEqual([`${second}.0.0`, `${second}.0.1`]);
      expect(await ids({ modelId, outcome: 'trained' })).toEqual([`${first}.0.0`, `${second}.0.0`]);
    });

    it('traces of tokens are kept once a gradient step, up to a size a model; the oldest go first', async () => {
      const { id: modelId } = await addModel(store);
      const jobId = await submit(modelId, [[1, 0, 0.5]]);
      const { fencingToken } = await claim(store);
      const step = (gradientStep: number, trajectories: number[], maxBytes = 1000) =>
        store.jobs.appendEvent(jobId, fencingToken, {
          type: 'gradient_step',
          data: {},
          dedupeKey: `gradient_step:${gradientStep}`,
          traces: {
            gradientStep,
            maxBytes,
            traces: trajectories.map((trajectoryIndex) => ({
              groupIndex: 0,
              trajectoryIndex,
              trace: Uint8Array.from({ length: 100 }, () => gradientStep),
            })),
          },
        });
      const kept = async (trajectoryIndex: number) =>
        (await store.trajectories.listTraces(`${jobId}.0.${trajectoryIndex}`)).map(({ gradientStep, trace }) => {
          expect([...new Set(trace)]).toEqual([gradientStep]);
          expect(trace.length).toBe(100);
          return gradientStep;
        });
      await step(0, [0, 1]);
      await step(0, [0, 1, 2]);
      expect([await kept(0), await kept(1), await kept(2)]).toEqual([[0], [0], []]);
      await step(1, [0, 2, 7], 350);
      expect([await kept(0), await kept(1), await kept(2)]).toEqual([[1], [0], [1]]);
      expect(await store.trajectories.listTraces('unknown')).toEqual([]);

      // They are removed with their content, and with the model.
      clock.advance(DAY_MS);
      await step(2, [1]);
      await store.trajectories.expire(clock.read(), 100);
      expect([await kept(0), await kept(1), await kept(2)]).toEqual([[], [2], []]);
      await store.models.delete(modelId);
      expect(await kept(1)).toEqual([]);
      expect(await store.trajectories.get(`${jobId}.0.1`)).toBeNull();
      expect(await ids({ modelId })).toEqual([]);
    });

    it('a trajectory without its messages is marked', async () => {
      const { id: modelId } = await addModel(store);
      const logId = await log(modelId, 'val', [[1]]);
      clock.advance(DAY_MS);
      await store.trajectories.expire(clock.read(), 100);
      expect(await store.trajectories.get(`${logId}.0.0`)).toMatchObject({ reward: 1, blobKey: null });
    });
  });
}
