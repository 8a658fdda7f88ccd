import type { Access } from '../access.ts';
import { endSucceeded, insertJob, refuseWhenFull } from '../jobs/job-lifecycle.ts';
import type { PullJob } from '../jobs/jobs.ts';
import type { Pulls } from './pulls.ts';

export function sqlPulls({ tables, now, write }: Access): Pulls {
  return {
    enqueue: ({ entityId, baseModel, maxLive, origin }) =>
      write(async (own) => {
        const turn = turnOf(baseModel);
        const [live] = await own.jobs.listLiveOfTurn(turn);
        if (live !== undefined) return live as PullJob;
        await refuseWhenFull(own, ['pull'], null, maxLive);
        const job = { entityId, modelId: null, turn, kind: 'pull', baseModel, config: {}, dataKey: null } as const;
        return (await insertJob(own, { ...job, ...(origin && { origin }) }, now())) as PullJob;
      }),
    finish: (jobId, fencingToken) =>
      write(async (own) => await endSucceeded(own, await own.jobs.held(jobId, fencingToken), now())),
    listNewest: async () => await tables.jobs.listNewestPulls(),
  };
}

/** Turns of other kinds are ids. */
const turnOf = (baseModel: string): string => `pull:${baseModel}`;
