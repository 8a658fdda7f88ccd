import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Access } from '../access.ts';
import type { ChoiceRecordBuffer } from '../choice-records/choice-record-buffer.ts';
import { NO_JOBS } from '../jobs/job-table.ts';
import type { KeptAnswerStore } from '../kept-answers/kept-answer-store.ts';
import { BEST_BY } from '../runs/runs.ts';
import type { Tables } from '../tables.ts';
import { adoptCheckpoint } from './adoption.ts';
import { createModel, deleteModel, labelModel, sweepDeleted } from './model-lifecycle.ts';
import type { Models, ModelState } from './models.ts';

/** Rows of a deleted model removed per transaction: about 5 ms. */
const SWEPT_AT_ONCE = 500;

/** Records and answers of a model, which are removed with it. */
export interface ModelRemains {
  readonly choiceRecords: Pick<ChoiceRecordBuffer, 'flush' | 'deleteOfModel'>;
  readonly keptAnswers: Pick<KeptAnswerStore, 'deleteOfModel'>;
}

export function sqlModels(access: Access, { choiceRecords, keptAnswers }: ModelRemains): Models {
  const { tables, now, write, writeAnswered } = access;
  return {
    create: (input) =>
      writeAnswered(
        (own) => createModel(own, input, now()),
        ({ kind }) => (kind === 'created' ? input.completes : undefined),
      ),
    get: async (modelId) => await tables.models.get(modelId),
    find: async (entity, project, name) => await tables.models.find(entity, project, name),
    findByName: async (entity, name) => await tables.models.findByName(entity, name),
    list: async (query) => await tables.models.list(query),
    getStates: async (modelIds) => {
      const { models, modelTags, checkpoints, jobs, metrics } = tables;
      const latest = await checkpoints.latestOf(modelIds);
      const rewards = await metrics.last(modelIds, 'train/reward');
      const best = await metrics.best(modelIds, BEST_BY);
      const liveJobs = await jobs.countStates(modelIds);
      const lastJobs = await jobs.lastEnded(modelIds);
      const tags = await modelTags.list(modelIds);
      const states = new Map<string, ModelState>();
      for (const id of await models.whichExist(modelIds))
        states.set(id, {
          latest: latest.get(id)?.latest ?? null,
          numCheckpoints: latest.get(id)?.numCheckpoints ?? 0,
          reward: rewards.get(id) ?? null,
          best: best.get(id) ?? null,
          jobs: liveJobs.get(id) ?? NO_JOBS,
          lastJob: lastJobs.get(id) ?? null,
          tags: tags.get(id) ?? [],
        });
      return states;
    },
    label: (modelId, change) => write((own) => labelModel(own, modelId, change, now())),
    delete: async (modelId, completes) => {
      await choiceRecords.flush();
      const deleted = await writeAnswered(async (own) => {
        await choiceRecords.deleteOfModel(own, modelId);
        await keptAnswers.deleteOfModel(own, modelId);
        return await deleteModel(own, modelId, now());
      }, completes);
      // The model is deleted even if this fails; `purgeExpired` removes the rest.
      if (deleted !== null) await removeDeletedRows(access).catch(() => {});
      return deleted;
    },
    adopt: (checkpoint) => write((own) => adoptCheckpoint(own, checkpoint, now())),
  };
}

/** Removes rows of deleted models in parts, so that others can write in between. */
export async function removeDeletedRows({ write }: Access): Promise<void> {
  const sweep = (tables: Tables) => sweepDeleted(tables, SWEPT_AT_ONCE);
  while (await write(sweep, { isDurable: false })) await nextTurn();
}
