import { existsSync, statSync } from 'node:fs';

import {
  type Blobs,
  checkOwnBlobs,
  dropOtherMarks,
  openBlobs,
  openStore,
  refuseLostDatabase,
  type SqlStore,
  StoreError,
} from '@trainyard/store';

import { adoptBlobs } from '../../jobs/adopt-blobs.ts';
import { claimDataDirectory, dataPaths, instanceOf } from '../../seams/data/data-directory.ts';
import { setDatabaseAside } from '../../seams/data/set-database-aside.ts';
import type { DataMetrics } from '../../seams/metrics/data-metrics.ts';
import type { ServiceConfig } from '../settings/config.ts';

export interface ServiceData {
  readonly store: SqlStore;
  readonly blobs: Blobs;
}

export type DataConfig = Pick<
  ServiceConfig,
  | 'dataDirectory'
  | 'database'
  | 'bucket'
  | 'outageSeconds'
  | 'choiceRecordHours'
  | 'choiceRecordMegabytes'
  | 'storeResponsesMs'
  | 'storeResponsesMegabytes'
  | 'adoptsBlobs'
  | 'entity'
  | 'models'
  | 'modelId'
>;

/**
 * Locks the data folder for this process, opens the database and the blobs, and continues the work of the
 * previous process. A lost database with existing blobs, or blobs of another service, end the start, unless
 * they are to be adopted.
 * @param cleanups get the undo of each step, to be called in reverse
 * @param log gets a line for each adoption, and for each damaged file that was downloaded again
 * @param metrics count each call and request; default: none
 * @throws {ServerError} `server.data_directory_unusable`
 * @throws {StoreError} for an unusable database or blobs
 */
export async function openData(
  config: DataConfig,
  cleanups: (() => unknown)[],
  log: (line: string) => void,
  metrics?: DataMetrics,
): Promise<ServiceData> {
  cleanups.push(claimDataDirectory(config.dataDirectory));
  const { database, adoptsBlobs: adopts } = config;
  const { blobs: root } = dataPaths(config.dataDirectory);
  const blobs = await openBlobs(config.bucket ?? { kind: 'folder', root }, process.env, {
    ...(metrics && { onRequest: metrics.sawRequest }),
    onRepair: log,
  });
  cleanups.push(() => blobs.close());
  if (database.kind === 'sqlite' && !adopts) {
    const state = lostState(database.path);
    if (state !== null) await refuseLostDatabase(database.path, state, blobs);
  }
  const store = await openOrSetAside(config, log, metrics);
  cleanups.push(() => store.close());
  await checkOwnBlobs(store, blobs, { adopts });
  await store.recoverAfterRestart();
  if (adopts) {
    const { entity, models, modelId } = config;
    await adoptBlobs({ store, blobs, entity, baseModel: models[0]?.id ?? modelId, log });
    await dropOtherMarks(store, blobs);
  }
  return { store, blobs };
}

/** State of a lost database file, before a new one is created; null: it has content. */
function lostState(path: string): 'missing' | 'empty' | null {
  if (!existsSync(path)) return 'missing';
  return statSync(path).size === 0 ? 'empty' : null;
}

/** A damaged file is set aside if its blobs are adopted. */
async function openOrSetAside(
  config: DataConfig,
  log: (line: string) => void,
  metrics: DataMetrics | undefined,
): Promise<SqlStore> {
  const { database, dataDirectory, outageSeconds, choiceRecordHours, choiceRecordMegabytes, adoptsBlobs } = config;
  const { storeResponsesMs, storeResponsesMegabytes } = config;
  const keptLimits = {
    maxBytes: storeResponsesMegabytes * 1_000_000,
    ...(storeResponsesMs !== null && { lifetimeMs: storeResponsesMs }),
  };
  const open = async () =>
    await openStore(database, {
      instanceId: instanceOf(dataDirectory),
      reservesSpace: true,
      outageMs: outageSeconds * 1_000,
      ...(metrics && { onCall: metrics.sawCall }),
      choiceRecords: {
        lifetimeMs: choiceRecordHours * 3_600_000,
        maxBytes: choiceRecordMegabytes * 1_000_000,
      },
      keptAnswers: keptLimits,
      conversations: keptLimits,
    });
  try {
    return await open();
  } catch (error) {
    const isDamaged = error instanceof StoreError && error.code === 'store.corrupt';
    if (!isDamaged || !adoptsBlobs || database.kind !== 'sqlite') throw error;
    log(`${error.message}. It was moved to ${setDatabaseAside(database.path, 'damaged')}.`);
    return await open();
  }
}
