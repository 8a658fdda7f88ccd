import type { Access } from '../access.ts';
import type { Trajectories } from './trajectories.ts';

export function sqlTrajectories({ tables, now, write, writeAnswered }: Access): Trajectories {
  return {
    list: async (query) => await tables.trajectories.list(query),
    get: async (trajectoryId) => await tables.trajectories.get(trajectoryId),
    listTraces: async (trajectoryId) => await tables.trajectories.listTraces(trajectoryId),
    recordLog: (input) =>
      writeAnswered(
        async (own) => {
          const model = await own.models.get(input.modelId);
          if (model === null) return null;
          const checkpoint = await own.checkpoints.latest(input.modelId);
          if (checkpoint !== null) {
            // Removes only the metrics of the split's last log: `train/…` also holds those of the job itself.
            const replaced = await own.logs.lastMetrics(checkpoint.id, input.split);
            const kept = Object.entries(checkpoint.metrics).filter(([name]) => !(name in replaced));
            await own.checkpoints.setMetrics(checkpoint.id, { ...Object.fromEntries(kept), ...input.metrics });
          }
          const at = now();
          const log = await own.logs.insert(input, checkpoint, at);
          const { modelId, split, metrics, numTrajectories } = input;
          const step = checkpoint?.step ?? model.nextStep - 1;
          await own.metrics.append(modelId, metrics, { step, gradientStep: null, job: null }, at);
          const set = { id: log.id, modelId, jobId: null, split, step };
          await own.trajectories.insert(set, input.rewards ?? [], input.contents ?? null);
          const data = { log_id: log.id, split, step, num_trajectories: numTrajectories, metrics };
          await own.feed.add({ type: 'log_recorded', entityId: model.entityId, modelId, data }, at);
          return log;
        },
        () => input.completes,
      ),
    listLogs: async (query) => await tables.logs.list(query),
    expire: (before, limit) =>
      write(async ({ jobs, logs, trajectories }) => {
        const at = now();
        const ofJobs = await jobs.data.markRemoved(before, limit, at);
        const ofLogs = await logs.data.markRemoved(before, limit - ofJobs.length, at);
        await trajectories.expireTraces(before, limit);
        await trajectories.expireContents([...ofJobs, ...ofLogs]);
        const blobKeys: string[] = [];
        for (const key of new Set([...ofJobs, ...ofLogs]))
          if (!(await jobs.data.has(key)) && !(await logs.data.has(key))) blobKeys.push(key);
        return { numJobs: ofJobs.length, numLogs: ofLogs.length, blobKeys };
      }),
    listOutdatedContents: async (limit) => await tables.trajectories.listOutdatedContents(limit),
    replaceContents: (setId, firstGroup, contents) =>
      write((own) => own.trajectories.replaceContents(setId, firstGroup, contents)),
    settleContents: (setId, end) => write((own) => own.trajectories.settleContents(setId, end)),
    countData: async (removedSince) => {
      const { jobs, logs } = tables;
      const counts = await Promise.all([jobs.data.count(removedSince), logs.data.count(removedSince)]);
      return {
        numKept: counts.reduce((sum, { numKept }) => sum + numKept, 0),
        numRemoved: counts.reduce((sum, { numRemoved }) => sum + numRemoved, 0),
      };
    },
  };
}
